// Package subpath mounts a part of a volume, the subPath of a volumeMount, where a container can
// mount it.
//
// The contents of a volume belong to the pods that write to it. They can replace a directory by a
// link at any moment, so that a path that was checked may lead somewhere else when it is used.
// [Mount] therefore works with file descriptors: the kernel resolves the path and guarantees that it
// does not leave the volume, and the mount is of the file that was found, whatever its path means
// by then. Links inside the volume are followed, as those of config maps and secrets require.
//
// Without root nothing can be mounted. Mount then returns the path that it has found.
package subpath

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// Errors of [Check].
var (
	ErrAbsolute = errors.New("must not be an absolute path")
	ErrBackstep = errors.New("must not contain '..'")
	ErrInvalid  = errors.New("must not contain a zero byte")
)

// ErrEscapes is returned by [Mount] for a path that leads out of the volume.
var ErrEscapes = errors.New("the path leads out of the volume")

// Check reports whether path can be a path in a volume, by its text alone.
func Check(path string) error {
	switch {
	case filepath.IsAbs(path):
		return ErrAbsolute
	case slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".."):
		return ErrBackstep
	case strings.ContainsRune(path, 0):
		return ErrInvalid
	}
	return nil
}
