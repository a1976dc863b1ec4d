//go:build !linux

package subpath

import "errors"

// Mount needs Linux.
func Mount(string, string, string) (string, error) { return "", errors.ErrUnsupported }
