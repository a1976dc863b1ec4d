package ruleset

import (
	"github.com/vishvananda/netns"
)

// EnterNamespace moves the calling thread into the network namespace at a path. The caller has locked its
// goroutine to the thread and does not unlock it.
func EnterNamespace(path string) error {
	fd, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer fd.Close()
	return netns.Set(fd)
}
