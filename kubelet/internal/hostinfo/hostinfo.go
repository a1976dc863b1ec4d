// Package hostinfo reads what a Node says about its machine: the capacity and the names and versions.
//
//	info := hostinfo.Read("/var/lib/kubelet", nil, 0, "v1.36.0")
package hostinfo

import (
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/planekit/planekit/kubelet/internal/machine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxPods is the default number of pods of a node.
const maxPods = 110

// Info is the information about the machine in the Node.
type Info struct {
	Capacity  corev1.ResourceList
	HugePages []machine.HugePages
	System    corev1.NodeSystemInfo
}

// Read reads the machine's properties. Unknown ones are empty. The storage is that of the file system of root,
// what override has replaces what was read, and podsPerCore bounds the number of pods unless it is zero.
func Read(root string, override corev1.ResourceList, podsPerCore int, version string) Info {
	h := Info{Capacity: corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(maxPods, resource.DecimalSI),
	}}
	meminfo := read("/proc/meminfo")
	if kib := memInfo(meminfo, "MemTotal:"); kib > 0 {
		h.Capacity[corev1.ResourceMemory] = *resource.NewQuantity(kib*1024, resource.BinarySI)
	}
	var fs syscall.Statfs_t
	if syscall.Statfs(root, &fs) == nil {
		h.Capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(fs.Blocks)*int64(fs.Bsize), resource.BinarySI)
	}
	h.HugePages = machine.ReadHugePages("/sys")
	for _, pages := range h.HugePages {
		size := resource.NewQuantity(pages.Size, resource.BinarySI)
		h.Capacity[corev1.ResourceName(corev1.ResourceHugePagesPrefix+size.String())] = *resource.NewQuantity(pages.Size*pages.Count, resource.BinarySI)
	}
	maps.Copy(h.Capacity, override)
	boundPods(h.Capacity, podsPerCore)
	h.System = corev1.NodeSystemInfo{
		MachineID:       read("/etc/machine-id"),
		SystemUUID:      read("/sys/class/dmi/id/product_uuid"),
		BootID:          read("/proc/sys/kernel/random/boot_id"),
		KernelVersion:   read("/proc/sys/kernel/osrelease"),
		OSImage:         prettyName(read("/etc/os-release")),
		OperatingSystem: runtime.GOOS,
		Architecture:    runtime.GOARCH,
		KubeletVersion:  version,
	}
	if swap := memInfo(meminfo, "SwapTotal:"); swap > 0 {
		h.System.Swap = &corev1.NodeSwapStatus{Capacity: new(swap * 1024)}
	}
	return h
}

// boundPods bounds the number of pods in capacity by its CPUs. Zero means no bound.
func boundPods(capacity corev1.ResourceList, perCore int) {
	if perCore > 0 {
		most := capacity.Cpu().Value() * int64(perCore)
		capacity[corev1.ResourcePods] = *resource.NewQuantity(min(most, capacity.Pods().Value()), resource.DecimalSI)
	}
}

// WithoutHugePages returns list with less memory: huge pages are allocated by themselves.
func WithoutHugePages(list corev1.ResourceList) corev1.ResourceList {
	list = maps.Clone(list)
	memory, ok := list[corev1.ResourceMemory]
	for name, pages := range list {
		if ok && strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory.Sub(pages)
			list[corev1.ResourceMemory] = memory
		}
	}
	if memory.Sign() < 0 {
		list[corev1.ResourceMemory] = *resource.NewQuantity(0, resource.BinarySI)
	}
	return list
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// memInfo reads a line of /proc/meminfo, in KiB. Zero means that there is none.
func memInfo(meminfo, name string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err == nil {
				return n
			}
		}
	}
	return 0
}

// prettyName reads the name of the distribution from os-release(5).
func prettyName(release string) string {
	for line := range strings.Lines(release) {
		if rest, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			return strings.Trim(strings.TrimSpace(rest), `"'`)
		}
	}
	return "Linux"
}
