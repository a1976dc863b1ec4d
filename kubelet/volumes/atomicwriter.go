package volumes

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Names inside a volume that is written atomically. A container that reads through ..data sees all
// files of one version.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
)

// File is one file of a volume.
type File struct {
	Data []byte
	Mode fs.FileMode
}

// WriteAtomically replaces the contents of a volume by files. It writes them to a new directory and
// then switches the link ..data to it; each top-level name is a link through ..data. It does
// nothing if the files have not changed. A volume must have one writer at a time.
// The paths must be local. Files belong to the group, if there is one.
func WriteAtomically(volume string, files map[string]File, group *int64) error {
	old, err := os.Readlink(filepath.Join(volume, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" && same(filepath.Join(volume, old), files) {
		return nil
	}
	version, err := os.MkdirTemp(volume, "..version_")
	if err != nil {
		return err
	}
	if err := writeVersion(version, files, group); err != nil {
		return errors.Join(err, os.RemoveAll(version))
	}
	next := filepath.Join(volume, newDataLink)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(volume, dataLink)); err != nil {
		return err
	}
	if err := linkNames(volume, files); err != nil {
		return err
	}
	return removeVersions(volume, filepath.Base(version))
}

func writeVersion(version string, files map[string]File, group *int64) error {
	if err := os.Chmod(version, 0o755); err != nil {
		return err
	}
	for path, f := range files {
		full := filepath.Join(version, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, f.Data, 0o600); err != nil {
			return err
		}
		mode := f.Mode
		if group != nil {
			if err := os.Chown(full, -1, int(*group)); err != nil {
				return err
			}
			mode |= 0o040
		}
		if err := os.Chmod(full, mode); err != nil {
			return err
		}
	}
	return nil
}

// tops returns the first elements of the paths.
func tops(files map[string]File) map[string]bool {
	names := map[string]bool{}
	for path := range files {
		top, _, _ := strings.Cut(path, "/")
		names[top] = true
	}
	return names
}

// linkNames creates the top-level links of the volume and removes links whose files are gone.
func linkNames(volume string, files map[string]File) error {
	names := tops(files)
	entries, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if names[e.Name()] {
			delete(names, e.Name())
		} else if err := os.Remove(filepath.Join(volume, e.Name())); err != nil {
			return err
		}
	}
	for name := range names {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(volume, name)); err != nil {
			return err
		}
	}
	return nil
}

// removeVersions removes all versions except keep, including those of writers that died.
func removeVersions(volume, keep string) error {
	entries, err := os.ReadDir(volume)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "..version_") && e.Name() != keep {
			if err := os.RemoveAll(filepath.Join(volume, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// same reports whether a version contains exactly these files.
func same(version string, files map[string]File) bool {
	have := map[string]File{}
	err := filepath.WalkDir(version, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(version, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		have[relative] = File{Data: data}
		return err
	})
	return err == nil && slices.Equal(slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(files))) &&
		func() bool {
			for path, f := range files {
				if !bytes.Equal(have[path].Data, f.Data) {
					return false
				}
			}
			return true
		}()
}
