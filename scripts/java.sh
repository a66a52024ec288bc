#!/usr/bin/env bash
# Print the JAVA_HOME of a Java 17 or newer, installing one if there is none. Everything else goes to stderr.
set -euo pipefail
. "$(dirname "$0")/packages.sh"

OLDEST=17

# java_version HOME: the major version, or nothing.
java_version() {
  [ -x "$1/bin/java" ] || return 0
  "$1/bin/java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

home_of_java_on_path() {
  local java
  java=$(command -v java) || return 0
  # macOS has a stub /usr/bin/java that is not Java; asking Java itself works everywhere.
  "$java" -XshowSettings:properties -version 2>&1 | sed -n 's/^ *java\.home = //p' | head -n 1
}

candidate_homes() {
  if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME"; fi
  home_of_java_on_path
  if [ -x /usr/libexec/java_home ]; then /usr/libexec/java_home -v "$OLDEST+" 2>/dev/null || true; fi
  local home
  for home in /usr/lib/jvm/* /opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home /usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home; do
    if [ -d "$home" ]; then echo "$home"; fi
  done
}

find_java() {
  local home version
  while IFS= read -r home; do
    version=$(java_version "$home")
    if [ -n "$version" ] && [ "$version" -ge "$OLDEST" ]; then
      echo "$home"
      return 0
    fi
  done < <(candidate_homes)
  return 1
}

packages() {
  case "$(package_manager || true)" in
    apt-get) echo openjdk-17-jre-headless openjdk-21-jre-headless openjdk-25-jre-headless default-jre-headless ;;
    dnf | yum) echo java-17-openjdk-headless java-21-openjdk-headless java-latest-openjdk-headless ;;
    zypper) echo java-17-openjdk-headless java-21-openjdk-headless ;;
    pacman) echo jre17-openjdk-headless jre21-openjdk-headless ;;
    apk) echo openjdk17-jre-headless openjdk21-jre-headless ;;
    brew) echo openjdk@17 openjdk@21 ;;
  esac
}

if ! find_java; then
  # shellcheck disable=SC2046
  install_any "Java $OLDEST or newer" $(packages)
  find_java || { say "error: Java was installed, but no version $OLDEST or newer was found; set JAVA_HOME"; exit 1; }
fi
