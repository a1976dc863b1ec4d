package machine

import (
	"fmt"
	"regexp"
)

// Bridge returns the name of the bridge of one node of cluster id, which is the scope of its mapped ports too. An interface's
// name has room for 15 bytes: the identity takes eight of them.
func Bridge(id string, node int) string { return fmt.Sprintf("pk%s-%d", id, node) }

var bridgeName = regexp.MustCompile(`^pk([0-9a-f]{8})-[0-9]+$`)

// ClusterOf returns the identity of the cluster that has the bridge called link.
func ClusterOf(link string) (id string, ok bool) {
	m := bridgeName.FindStringSubmatch(link)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// Cgroup returns the cgroup of all nodes of cluster id.
func Cgroup(id string) string { return "/planekit-" + id }
