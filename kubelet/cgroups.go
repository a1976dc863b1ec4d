package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// cgroups creates and removes control groups below a mount of the cgroup file systems: version 1
// with one hierarchy per controller, or version 2, which has cgroup.controllers at its root.
type cgroups struct {
	mount string
}

func (g cgroups) unified() bool {
	_, err := os.Stat(filepath.Join(g.mount, "cgroup.controllers"))
	return err == nil
}

// hierarchies returns the roots of all hierarchies.
func (g cgroups) hierarchies() ([]string, error) {
	if g.unified() {
		return []string{g.mount}, nil
	}
	entries, err := os.ReadDir(g.mount)
	if err != nil {
		return nil, err
	}
	var tops []string
	for _, e := range entries {
		// A link such as cpu,cpuacct leads to a hierarchy that is listed too.
		if e.IsDir() {
			tops = append(tops, filepath.Join(g.mount, e.Name()))
		}
	}
	return tops, nil
}

// limits holds the limits of a whole pod. Zero means no limit, except for shares.
type limits struct {
	shares int64
	quota  int64 // microseconds in 100 ms
	memory int64 // bytes
}

// podLimits returns the sums over a pod's containers. A pod has a limit only if all its containers
// have one.
func podLimits(pod *corev1.Pod) limits {
	var cpu, cpuLimit, memory int64
	cpuLimited, memoryLimited := true, true
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		cpu += r.Requests.Cpu().MilliValue()
		cpuLimit += r.Limits.Cpu().MilliValue()
		memory += r.Limits.Memory().Value()
		cpuLimited = cpuLimited && !r.Limits.Cpu().IsZero()
		memoryLimited = memoryLimited && !r.Limits.Memory().IsZero()
	}
	l := limits{shares: cpuShares(cpu)}
	if qosClass(pod) == corev1.PodQOSBestEffort {
		l.shares = minShares
	}
	// Init containers may use more than the main containers, so set no limit here.
	if cpuLimited && len(pod.Spec.InitContainers) == 0 {
		l.quota = cpuQuota(cpuLimit)
	}
	if memoryLimited && len(pod.Spec.InitContainers) == 0 {
		l.memory = memory
	}
	return l
}

// create creates a cgroup with limits. The runtime creates it in the other hierarchies.
func (g cgroups) create(path string, l limits) error {
	settings := map[string]string{}
	if g.unified() {
		settings["cpu.weight"] = strconv.FormatInt(1+(l.shares-2)*9999/262142, 10)
		if l.quota > 0 {
			settings["cpu.max"] = fmt.Sprintf("%d %d", l.quota, cpuPeriod)
		}
		if l.memory > 0 {
			settings["memory.max"] = strconv.FormatInt(l.memory, 10)
		}
		if err := g.delegate(path); err != nil {
			return err
		}
		return writeSettings(filepath.Join(g.mount, path), settings)
	}
	settings["cpu.shares"] = strconv.FormatInt(l.shares, 10)
	if l.quota > 0 {
		settings["cpu.cfs_quota_us"] = strconv.FormatInt(l.quota, 10)
	}
	if err := writeSettings(filepath.Join(g.mount, "cpu", path), settings); err != nil {
		return err
	}
	settings = map[string]string{}
	if l.memory > 0 {
		settings["memory.limit_in_bytes"] = strconv.FormatInt(l.memory, 10)
	}
	return writeSettings(filepath.Join(g.mount, "memory", path), settings)
}

// delegate enables the cpu, memory, pids and cpuset controllers down to path.
func (g cgroups) delegate(path string) error {
	at := g.mount
	for element := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		control := filepath.Join(at, "cgroup.subtree_control")
		for _, controller := range []string{"cpu", "memory", "pids", "cpuset"} {
			if err := os.WriteFile(control, []byte("+"+controller), 0o644); err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.EINVAL) {
				return err
			}
		}
		at = filepath.Join(at, element)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func writeSettings(directory string, settings map[string]string) error {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for name, value := range settings {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(value), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// killPauses are the pauses after each attempt to kill the processes in a cgroup: a killed process
// leaves its cgroup only once it has exited.
var killPauses = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond}

// empty kills the processes in a cgroup and below it. After the runtime has removed all containers
// of a pod, these are processes that it does not know of: a runtime that is killed while it starts a
// container can leave some.
func (g cgroups) empty(path string) error {
	for _, pause := range killPauses {
		pids, err := g.processes(path)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("kill process %d in cgroup %s: %w", pid, path, err)
			}
		}
		time.Sleep(pause)
	}
	return nil
}

// processes returns the processes in a cgroup and below it, in any hierarchy.
func (g cgroups) processes(path string) ([]int, error) {
	tops, err := g.hierarchies()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, top := range tops {
		err := filepath.WalkDir(filepath.Join(top, path), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return ignoreMissing(err)
			}
			data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for line := range strings.Lines(string(data)) {
				// Zero stands for a process outside this process's PID namespace.
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
			return ignoreMissing(err)
		})
		if err != nil {
			return nil, err
		}
	}
	return pids, nil
}

// ignoreMissing returns err unless it says that a cgroup has been removed.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// remove removes a cgroup and all below it from every hierarchy. It fails if a process is in one of
// them.
func (g cgroups) remove(path string) error {
	tops, err := g.hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, top := range tops {
		var directories []string
		err := filepath.WalkDir(filepath.Join(top, path), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil && d.IsDir() {
				directories = append(directories, path)
			}
			return err
		})
		errs = append(errs, err)
		for _, directory := range slices.Backward(directories) {
			if err := syscall.Rmdir(directory); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("remove cgroup %s: %w", directory, err))
			}
		}
	}
	return errors.Join(errs...)
}

// removeEmpty removes a cgroup and its empty parents.
func (g cgroups) removeEmpty(path string) error {
	tops, err := g.hierarchies()
	if err != nil {
		return err
	}
	for _, top := range tops {
		for at := path; at != "/" && at != "."; at = filepath.Dir(at) {
			if err := syscall.Rmdir(filepath.Join(top, at)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	return nil
}

// children returns the names below a cgroup in any hierarchy.
func (g cgroups) children(path string) ([]string, error) {
	tops, err := g.hierarchies()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, top := range tops {
		entries, err := os.ReadDir(filepath.Join(top, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// classes maps QoS classes to their cgroups below the root.
var classes = map[corev1.PodQOSClass]string{
	corev1.PodQOSGuaranteed: "", corev1.PodQOSBurstable: "burstable", corev1.PodQOSBestEffort: "besteffort",
}

// podCgroup returns the cgroup of a pod, such as /kubepods/burstable/podUID; empty if pods have
// none.
func (k *Kubelet) podCgroup(pod *corev1.Pod) string {
	if k.config.CgroupRoot == "" {
		return ""
	}
	return filepath.Join(k.config.CgroupRoot, classes[qosClass(pod)], "pod"+string(pod.UID))
}

// makePodCgroup creates the cgroup of a pod's sandbox and containers.
func (k *Kubelet) makePodCgroup(pod *corev1.Pod) error {
	if k.config.CgroupRoot == "" {
		return nil
	}
	if qosClass(pod) == corev1.PodQOSBestEffort {
		if err := k.cgroups.create(filepath.Join(k.config.CgroupRoot, "besteffort"), limits{shares: minShares}); err != nil {
			return err
		}
	}
	return k.cgroups.create(k.podCgroup(pod), podLimits(pod))
}

// removePodCgroups removes a pod's cgroup in every class, and kills the processes in it, as upstream's
// kubelet does.
func (k *Kubelet) removePodCgroups(uid podUID) error {
	if k.config.CgroupRoot == "" {
		return nil
	}
	var errs []error
	for _, class := range classes {
		path := filepath.Join(k.config.CgroupRoot, class, "pod"+string(uid))
		errs = append(errs, k.cgroups.empty(path), k.cgroups.remove(path))
	}
	return errors.Join(errs...)
}
