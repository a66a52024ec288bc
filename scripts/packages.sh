# Sourced by the other scripts: installing with the system's package manager.

say() { printf '%s\n' "$*" >&2; }

# Prefix for a command that needs root: "" for root, "sudo -n" where sudo needs no password. Fails otherwise.
root_prefix() {
  if [ "$(id -u)" = 0 ]; then
    echo ""
  elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    echo "sudo -n"
  else
    return 1
  fi
}

package_manager() {
  local name
  for name in apt-get dnf yum zypper pacman apk brew; do
    if command -v "$name" >/dev/null 2>&1; then
      echo "$name"
      return
    fi
  done
  return 1
}

# install_command MANAGER PACKAGE: what a person would type, without sudo.
install_command() {
  case "$1" in
    apt-get) echo "apt-get install -y --no-install-recommends $2" ;;
    dnf | yum) echo "$1 install -y $2" ;;
    zypper) echo "zypper --non-interactive install $2" ;;
    pacman) echo "pacman -S --noconfirm --needed $2" ;;
    apk) echo "apk add $2" ;;
    brew) echo "brew install $2" ;;
  esac
}

# has_package MANAGER PACKAGE: can it be installed here?
has_package() {
  case "$1" in
    apt-get) apt-cache show "$2" >/dev/null 2>&1 ;;
    dnf | yum) "$1" -q list --available "$2" >/dev/null 2>&1 ;;
    zypper) zypper --non-interactive search --match-exact "$2" >/dev/null 2>&1 ;;
    pacman) pacman -Si "$2" >/dev/null 2>&1 ;;
    apk) [ -n "$(apk search -e "$2" 2>/dev/null)" ] ;;
    brew) brew info "$2" >/dev/null 2>&1 ;;
  esac
}

# Fetch the package lists, which a fresh container lacks.
refresh_packages() {
  case "$1" in
    apt-get) $2 apt-get update -qq ;;
    pacman) $2 pacman -Sy --noconfirm ;;
    apk) $2 apk update -q ;;
  esac
}

# install_any WHAT PACKAGE...: install the first package that exists here, or say what to type and fail.
install_any() {
  local what=$1 manager prefix package
  shift
  if ! manager=$(package_manager); then
    say "error: $what is missing, and this script knows none of the package managers here"
    return 1
  fi
  if [ "$manager" = brew ]; then
    prefix=""
  elif ! prefix=$(root_prefix); then
    package=$1
    for candidate in "$@"; do
      if has_package "$manager" "$candidate"; then
        package=$candidate
        break
      fi
    done
    say "error: $what is missing, and installing it needs root. Run this, then make again:"
    say "  sudo $(install_command "$manager" "$package")"
    return 1
  fi
  say "installing $what with $manager (once)"
  refresh_packages "$manager" "$prefix" >&2 || true
  for package in "$@"; do
    if has_package "$manager" "$package"; then
      DEBIAN_FRONTEND=noninteractive $prefix $(install_command "$manager" "$package") >&2 && return 0
    fi
  done
  say "error: $manager could not install $what. Tried: $*"
  return 1
}
