//go:build !linux

package containerd

// Nothing is mounted where containerd cannot have run.

func unmountUnder(string) error { return nil }

func mountsUnder(string) ([]string, error) { return nil, nil }

func unmount([]string) error { return nil }
