package proxy

import (
	"github.com/vishvananda/netns"
)

// enter moves the calling thread into a network namespace.
func enter(path string) error {
	fd, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer fd.Close()
	return netns.Set(fd)
}
