package kubelet

import (
	"errors"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/machine"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// maxPods is the default number of pods of a node.
const maxPods = 110

// hostInfo is the information about the machine in the Node.
type hostInfo struct {
	capacity  corev1.ResourceList
	hugePages []machine.HugePages
	info      corev1.NodeSystemInfo
}

// readHost reads the machine's properties. Unknown ones are empty.
func readHost(root string, override corev1.ResourceList, podsPerCore int) hostInfo {
	h := hostInfo{capacity: corev1.ResourceList{
		corev1.ResourceCPU:  *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourcePods: *resource.NewQuantity(maxPods, resource.DecimalSI),
	}}
	meminfo := read("/proc/meminfo")
	if kib := memInfo(meminfo, "MemTotal:"); kib > 0 {
		h.capacity[corev1.ResourceMemory] = *resource.NewQuantity(kib*1024, resource.BinarySI)
	}
	var fs syscall.Statfs_t
	if syscall.Statfs(root, &fs) == nil {
		h.capacity[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(fs.Blocks)*int64(fs.Bsize), resource.BinarySI)
	}
	h.hugePages = machine.ReadHugePages("/sys")
	for _, pages := range h.hugePages {
		size := resource.NewQuantity(pages.Size, resource.BinarySI)
		h.capacity[corev1.ResourceName(corev1.ResourceHugePagesPrefix+size.String())] = *resource.NewQuantity(pages.Size*pages.Count, resource.BinarySI)
	}
	maps.Copy(h.capacity, override)
	boundPods(h.capacity, podsPerCore)
	h.info = corev1.NodeSystemInfo{
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
		h.info.Swap = &corev1.NodeSwapStatus{Capacity: new(swap * 1024)}
	}
	return h
}

// check returns an error unless the machine is as required. The words are those of Kubernetes.
func (r Requirements) check(groups cgroup.FS) error {
	if r.Unified && !groups.Unified() {
		return errors.New("kubelet is configured to not run on a host using cgroup v1")
	}
	if r.NoSwap {
		switch swaps, err := machine.Swaps("/proc"); {
		case err != nil:
			return err
		case swaps:
			return errors.New("running with swap on is not supported, please disable swap or set failSwapOn to false")
		}
	}
	if r.KernelDefaults {
		return machine.CheckKernelDefaults("/proc")
	}
	return nil
}

// boundPods bounds the number of pods in capacity by its CPUs. Zero means no bound.
func boundPods(capacity corev1.ResourceList, perCore int) {
	if perCore > 0 {
		most := capacity.Cpu().Value() * int64(perCore)
		capacity[corev1.ResourcePods] = *resource.NewQuantity(min(most, capacity.Pods().Value()), resource.DecimalSI)
	}
}

// withoutHugePages returns list with less memory: huge pages are allocated by themselves.
func withoutHugePages(list corev1.ResourceList) corev1.ResourceList {
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

// hugePageSizes returns the sizes of huge pages in CRI's form.
func (k *Kubelet) hugePageSizes() []string {
	var sizes []string
	for _, pages := range k.host.hugePages {
		sizes = append(sizes, pages.Name())
	}
	return sizes
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
