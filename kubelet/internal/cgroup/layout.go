package cgroup

// Controllers that limit pods.
const (
	controllerCPU       = "cpu"
	controllerMemory    = "memory"
	controllerProcesses = "pids"
	controllerHugePages = "hugetlb"
	controllerCPUSet    = "cpuset"
)

// layout holds what differs between the versions of cgroups.
type layout interface {
	// roots returns the root directories of all hierarchies.
	roots() ([]string, error)
	// has reports whether the kernel has a controller.
	has(controller string) bool
	// create creates a cgroup, if it does not exist, where the controllers have theirs.
	create(path string, controllers []string) error
	// directory returns the directory of a cgroup in the hierarchy of a controller.
	directory(controller, path string) string
	// encode returns what to write for an amount.
	encode(amount) []setting
	// decode returns the limits that read returns the files of.
	decode(read func(controller, file string) string) Limits
	// usage returns the file with the memory in use.
	usage() string
	// inactive returns the field of memory.stat with the pages of files that were not used lately.
	inactive() string
}

// resource names something that a cgroup limits.
type resource int

const (
	shares resource = iota
	quota
	memory
	processes
	hugePages
)

// amount is an amount of a resource. A value that is not positive means no limit, except of huge pages.
type amount struct {
	resource resource
	size     string // of huge pages
	value    int64
	// optional means that a cgroup may lack the file: nothing depends on the limit.
	optional bool
}

// setting is the content of a file of a controller. A kernel may lack an optional one.
type setting struct {
	controller, file, value string
	optional                bool
}

// layout returns the layout of what is mounted: version 2 has cgroup.controllers at its root.
func (g FS) layout() layout {
	if _, err := g.disk().ReadFile(g.Mount + "/cgroup.controllers"); err == nil {
		return unified{g}
	}
	return separate{g}
}
