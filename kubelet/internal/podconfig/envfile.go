package podconfig

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// envFileLimit is the greatest size of a file with variables in bytes.
const envFileLimit = 1 << 20

// fromFile returns the value of a key in a file of a volume. present is false for a missing optional
// key; an empty value counts as missing, as in Kubernetes.
func (b *Builder) fromFile(pod *corev1.Pod, from *corev1.FileKeySelector, volumes Volumes) (value string, present bool, err error) {
	volume := volumes.Paths[from.VolumeName]
	if volume == "" {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", from.VolumeName)
	}
	value, err = readEnvFile(volume, from.Path, from.Key)
	switch {
	case err != nil:
		// Users see no details, because the file is not theirs to read here.
		b.Log.Error(err, "file with variables not read", "pod", pod.Namespace+"/"+pod.Name, "volume", from.VolumeName, "path", from.Path)
		return "", false, errors.New("couldn't parse env file")
	case value == "" && !isTrue(from.Optional):
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", from.Key, filepath.Join(volume, from.Path))
	}
	return value, value != "", nil
}

// readEnvFile reads a file that a container may have written: it follows no link out of the volume, and
// waits for no FIFO.
func readEnvFile(volume, path, key string) (string, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", err
	}
	defer root.Close()
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("not a regular file")
	case info.Size() > envFileLimit:
		return "", fmt.Errorf("larger than %d bytes", envFileLimit)
	}
	return envFileValue(io.LimitReader(file, envFileLimit), key)
}

// envFileValue returns the value of a key in a file of lines like
//
//	KEY='value' # comment
//
// A value ends at the next quote, which may be lines later. No character in it is special. The value is
// empty for a missing key, and for a key with a space before its value, as in a shell. What follows the
// key in the file is not checked.
func envFileValue(file io.Reader, key string) (string, error) {
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimLeft(lines.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, text, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return "", fmt.Errorf("line %d: missing '='", number)
		case strings.Trim(name, " \t") == "":
			return "", fmt.Errorf("line %d: empty variable name", number)
		case strings.HasSuffix(name, " ") || strings.HasSuffix(name, "\t"):
			return "", fmt.Errorf("line %d: whitespace before '=' is not allowed", number)
		case strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t"):
			if name == key {
				return "", nil
			}
			continue
		case !strings.HasPrefix(text, "'"):
			return "", fmt.Errorf("line %d: value must be enclosed in single quotes", number)
		}
		value, more, err := quoted(lines, text[1:], number)
		if err != nil || name == key {
			return value, err
		}
		number += more
	}
	return "", lines.Err()
}

// quoted returns the text up to the next quote, and the number of further lines that it has read.
func quoted(lines *bufio.Scanner, text string, number int) (value string, more int, err error) {
	for {
		part, rest, closed := strings.Cut(text, "'")
		value += part
		if closed {
			if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
				return "", more, fmt.Errorf("line %d: unexpected content after closing quote", number+more)
			}
			return value, more, nil
		}
		value += "\n"
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return "", more, err
			}
			return "", more, fmt.Errorf("line %d: unclosed single quote", number)
		}
		text, more = lines.Text(), more+1
	}
}
