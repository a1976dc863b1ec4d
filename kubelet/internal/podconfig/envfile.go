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
// key; an empty value counts as missing, as in Kubernetes. A file is read once, and counts as a variable
// does.
func (b *Builder) fromFile(pod *corev1.Pod, from *corev1.FileKeySelector, volumes Volumes, v *variables) (value string, present bool, err error) {
	volume := volumes.Paths[from.VolumeName]
	if volume == "" {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", from.VolumeName)
	}
	path := filepath.Join(volume, from.Path)
	file := v.files[path]
	if file == nil {
		size := 0
		if file, size, err = readEnvFile(volume, from.Path); err == nil && !v.left.take(size) {
			return "", false, v.left.err()
		}
		if err == nil {
			v.files[path] = file
		}
	}
	if err == nil {
		value, err = file.value(from.Key)
	}
	switch {
	case err != nil:
		// Users see no details, because the file is not theirs to read here.
		b.Log.Error(err, "file with variables not read", "pod", pod.Namespace+"/"+pod.Name, "volume", from.VolumeName, "path", from.Path)
		return "", false, errors.New("couldn't parse env file")
	case value == "" && !isTrue(from.Optional):
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", from.Key, path)
	}
	return value, value != "", nil
}

// readEnvFile reads a file that a container may have written: it follows no link out of the volume, and
// waits for no FIFO. It returns the number of bytes that it has read.
func readEnvFile(volume, path string) (*envFile, int, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, errors.New("not a regular file")
	case info.Size() > envFileLimit:
		return nil, 0, fmt.Errorf("larger than %d bytes", envFileLimit)
	}
	return parseEnvFile(io.LimitReader(file, envFileLimit)), int(info.Size()), nil
}

// envFile is a file of lines like
//
//	KEY='value' # comment
//
// A value ends at the next quote, which may be lines later. No character in it is special.
type envFile struct {
	// values holds the first value of each key.
	values map[string]string
	// err is the error after the last of the values. It does not matter for those before it.
	err error
}

// value returns the value of a key. It is empty for a missing key, and for a key with a space before its
// value, as in a shell.
func (f *envFile) value(key string) (string, error) {
	if value, ok := f.values[key]; ok {
		return value, nil
	}
	return "", f.err
}

func parseEnvFile(file io.Reader) *envFile {
	f := &envFile{values: map[string]string{}}
	lines := bufio.NewScanner(file)
	for number := 1; f.err == nil && lines.Scan(); number++ {
		line := strings.TrimLeft(lines.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, more, err := parseVariable(lines, line)
		number += more
		if err != nil {
			f.err = fmt.Errorf("line %d: %w", number, err)
		} else if _, known := f.values[name]; !known {
			f.values[name] = value
		}
	}
	if f.err == nil {
		f.err = lines.Err()
	}
	return f
}

// parseVariable parses a line, with the further lines of its value, whose number it returns.
func parseVariable(lines *bufio.Scanner, line string) (name, value string, more int, err error) {
	name, text, ok := strings.Cut(line, "=")
	switch {
	case !ok:
		return "", "", 0, errors.New("missing '='")
	case strings.Trim(name, " \t") == "":
		return "", "", 0, errors.New("empty variable name")
	case strings.HasSuffix(name, " ") || strings.HasSuffix(name, "\t"):
		return "", "", 0, errors.New("whitespace before '=' is not allowed")
	case strings.HasPrefix(text, " ") || strings.HasPrefix(text, "\t"):
		return name, "", 0, nil
	case !strings.HasPrefix(text, "'"):
		return "", "", 0, errors.New("value must be enclosed in single quotes")
	}
	value, more, err = quoted(lines, text[1:])
	return name, value, more, err
}

// quoted returns the text up to the next quote, and the number of further lines that it has read.
func quoted(lines *bufio.Scanner, text string) (value string, more int, err error) {
	var whole strings.Builder
	for {
		part, rest, closed := strings.Cut(text, "'")
		whole.WriteString(part)
		if closed {
			if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
				return "", more, errors.New("unexpected content after closing quote")
			}
			return whole.String(), more, nil
		}
		whole.WriteByte('\n')
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return "", more, err
			}
			return "", 0, errors.New("unclosed single quote") // said of the line that it begins in
		}
		text, more = lines.Text(), more+1
	}
}
