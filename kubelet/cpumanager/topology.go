package cpumanager

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// CPU is the place of a CPU in the machine.
type CPU struct {
	// Core is the lowest CPU number of the physical core, Socket the number of the package, and Node that
	// of the NUMA node.
	Core, Socket, Node int
}

// Topology describes the CPUs of a machine by their numbers.
type Topology map[int]CPU

// ReadTopology reads the online CPUs from devices, which is the directory /sys/devices/system.
func ReadTopology(devices fs.FS) (Topology, error) {
	online, err := readList(devices, "cpu/online")
	if err != nil {
		return nil, err
	}
	if online.Len() == 0 {
		return nil, errors.New("cpu/online lists no CPU")
	}
	nodes, err := readNodes(devices)
	if err != nil {
		return nil, err
	}
	t := Topology{}
	for _, id := range online.List() {
		dir := fmt.Sprintf("cpu/cpu%d/topology/", id)
		siblings, err := readList(devices, dir+"thread_siblings_list")
		if err != nil {
			return nil, err
		}
		if siblings = siblings.And(online); !siblings.Has(id) {
			return nil, fmt.Errorf("%sthread_siblings_list does not contain CPU %d", dir, id)
		}
		socket, err := readNumber(devices, dir+"physical_package_id")
		if err != nil {
			return nil, err
		}
		t[id] = CPU{Core: siblings.List()[0], Socket: socket, Node: nodes[id]}
	}
	return t, nil
}

// readNodes returns the NUMA node of each CPU that has one. Machines without NUMA have no files of nodes.
func readNodes(devices fs.FS) (map[int]int, error) {
	nodes := map[int]int{}
	online, err := readList(devices, "node/online")
	if errors.Is(err, fs.ErrNotExist) {
		return nodes, nil
	}
	if err != nil {
		return nil, err
	}
	for _, node := range online.List() {
		cpus, err := readList(devices, fmt.Sprintf("node/node%d/cpulist", node))
		if err != nil {
			return nil, err
		}
		for _, cpu := range cpus.List() {
			nodes[cpu] = node
		}
	}
	return nodes, nil
}

func readList(devices fs.FS, name string) (Set, error) {
	text, err := fs.ReadFile(devices, name)
	if err != nil {
		return Set{}, err
	}
	set, err := ParseSet(strings.TrimSpace(string(text)))
	if err != nil {
		return Set{}, fmt.Errorf("%s: %w", name, err)
	}
	return set, nil
}

// readNumber reads the number of a package, which is -1 on machines that do not know it.
func readNumber(devices fs.FS, name string) (int, error) {
	text, err := fs.ReadFile(devices, name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return max(int(n), 0), nil
}

// All returns the CPUs of the machine.
func (t Topology) All() Set {
	ids := make([]int, 0, len(t))
	for id := range t {
		ids = append(ids, id)
	}
	return NewSet(ids...)
}

// threads returns the number of CPUs per core, as upstream computes it.
func (t Topology) threads() int {
	cores := map[int]bool{}
	for _, cpu := range t {
		cores[cpu.Core] = true
	}
	if len(cores) == 0 {
		return 1
	}
	return max(len(t)/len(cores), 1)
}

// A level is one of the groups that a CPU is in.
type level func(CPU) int

func core(c CPU) int   { return c.Core }
func socket(c CPU) int { return c.Socket }
func node(c CPU) int   { return c.Node }

// count returns the number of groups at a level.
func (t Topology) count(l level) int {
	groups := map[int]bool{}
	for _, cpu := range t {
		groups[l(cpu)] = true
	}
	return len(groups)
}

// group returns the CPUs of a group at a level.
func (t Topology) group(l level, id int) Set {
	var cpus []int
	for cpu, place := range t {
		if l(place) == id {
			cpus = append(cpus, cpu)
		}
	}
	return NewSet(cpus...)
}

// wholeCores returns the CPUs of set whose cores are completely in it.
func (t Topology) wholeCores(set Set) Set {
	return set.filter(func(cpu int) bool { return t.group(core, t[cpu].Core).Within(set) })
}
