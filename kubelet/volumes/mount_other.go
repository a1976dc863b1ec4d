//go:build !linux

package volumes

import "errors"

func mountMemory(string, string) error { return errors.ErrUnsupported }

func mountDirectory(string, string, []string, bool) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }

func bindRecursively(string) error { return errors.ErrUnsupported }

func makeShared(string) error { return errors.ErrUnsupported }
