// Package podusage measures what a node has left and what its pods use, for evictions.
//
//	meter := podusage.New(podusage.Config{Stats: runtime, NodeName: "node-1", Root: "/var/lib/kubelet", ...})
//	levels, err := meter.Levels(ctx)
//	usages, err := meter.Usages(ctx, pods)
package podusage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/diskusage"
	"github.com/planekit/planekit/kubelet/internal/machine"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// meterTimeout bounds one measurement of the disk usage of pods.
	meterTimeout = 5 * time.Second
	// meterRest limits how often the disk usage of a pod is measured: a result is used for this many
	// times the duration of its measurement, so that measuring takes a tenth of a processor at most.
	meterRest = 10
)

// Stats are the statistics of a runtime.
type Stats interface {
	ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error)
	ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error)
}

// Config describes a Meter. All fields must be set.
type Config struct {
	Stats Stats
	// NodeName is in the label of the containers that are measured.
	NodeName string
	// Root is a directory in the node's file system.
	Root string
	// PodDirectory and LogDirectory return the directories of a pod.
	PodDirectory func(uid types.UID) string
	LogDirectory func(pod *corev1.Pod) string
	// Processes returns the number of processes in a pod's cgroup; false if it is not known.
	Processes func(pod *corev1.Pod) (int, bool)
	// Memory returns the working set of a pod's cgroup; false if it is not known. It has what the containers
	// that ended have left, such as files in a volume in memory.
	Memory func(pod *corev1.Pod) (int64, bool)
	// Allocatable returns the memory that all pods may use together, and what is left of it; false if they are
	// not limited together.
	Allocatable func() (eviction.Level, bool)
}

// Meter measures what the node has left and what pods use. It is used by one goroutine.
type Meter struct {
	config Config
	// disks holds the last measurements.
	disks map[types.UID]measured
}

// New returns a meter.
func New(c Config) *Meter { return &Meter{config: c, disks: map[types.UID]measured{}} }

// measured holds the space that the files of a pod take.
type measured struct {
	// containers holds logs and termination messages by container, and volumes emptyDir volumes.
	containers, volumes map[string]diskusage.Usage
	// hosts is the hosts file, which containers can write to.
	hosts diskusage.Usage
	// took is how long the measurement took, and until is when it is due again.
	took  time.Duration
	until time.Time
}

// Levels returns what is left of everything that can be measured.
func (m *Meter) Levels(ctx context.Context) (map[eviction.Signal]eviction.Level, error) {
	levels := map[eviction.Signal]eviction.Level{}
	var errs []error
	if memory, ok := machine.Memory("/proc"); ok {
		levels[eviction.MemoryAvailable] = eviction.Level{Available: int64(memory.Available), Capacity: int64(memory.Total)}
	}
	if level, ok := m.config.Allocatable(); ok {
		levels[eviction.AllocatableMemoryAvailable] = level
	}
	if running, most, err := machine.Processes("/proc"); err == nil {
		levels[eviction.PIDAvailable] = eviction.Level{Available: most - running, Capacity: most}
	} else {
		errs = append(errs, err)
	}
	fs, err := machine.FileSystemOf(m.config.Root)
	errs = append(errs, err)
	if err == nil {
		addFileSystem(levels, eviction.NodeFSAvailable, eviction.NodeFSInodesFree, fs)
	}
	// Without it, the images' file system is not judged.
	if fs, err := ImageFileSystem(ctx, m.config.Stats); err == nil {
		addFileSystem(levels, eviction.ImageFSAvailable, eviction.ImageFSInodesFree, fs)
	} else {
		errs = append(errs, fmt.Errorf("image file system: %w", err))
	}
	return levels, errors.Join(errs...)
}

func addFileSystem(levels map[eviction.Signal]eviction.Level, bytes, inodes eviction.Signal, fs machine.FileSystem) {
	levels[bytes] = eviction.Level{Available: fs.Available, Capacity: fs.Capacity}
	if fs.Inodes > 0 { // some file systems have as many as they need
		levels[inodes] = eviction.Level{Available: fs.InodesFree, Capacity: fs.Inodes}
	}
}

// Usages returns what pods use. What could not be measured is missing. Pods whose files take long to count
// come last, so that they do not keep the others from being measured; for those that there was no time for,
// the last measurement counts.
func (m *Meter) Usages(ctx context.Context, pods []*corev1.Pod) ([]eviction.Usage, error) {
	list, err := m.config.Stats.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{
		LabelSelector: map[string]string{podconfig.LabelNode: m.config.NodeName},
	}})
	byPod := map[types.UID][]*runtimeapi.ContainerStats{}
	for _, c := range list.GetStats() {
		uid := types.UID(c.GetAttributes().GetLabels()[podconfig.LabelPodUID])
		byPod[uid] = append(byPod[uid], c)
	}
	limited, cancel := context.WithTimeout(ctx, meterTimeout)
	defer cancel()
	quickest := slices.SortedStableFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		one, other := m.disks[a.UID], m.disks[b.UID]
		return cmp.Or(cmp.Compare(one.took, other.took), one.until.Compare(other.until))
	})
	errs := []error{err}
	for _, pod := range quickest {
		errs = append(errs, m.measure(limited, pod))
	}
	err = errors.Join(errs...)
	var usages []eviction.Usage
	for _, pod := range pods {
		usages = append(usages, m.usage(pod, byPod[pod.UID], m.disks[pod.UID]))
	}
	for uid, disk := range m.disks {
		if time.Since(disk.until) > time.Minute { // its pod has gone
			delete(m.disks, uid)
		}
	}
	return usages, err
}

// usage adds up what a pod uses.
func (m *Meter) usage(pod *corev1.Pod, containers []*runtimeapi.ContainerStats, disk measured) eviction.Usage {
	u := eviction.Usage{Pod: pod, Containers: map[string]eviction.ContainerUsage{}, Volumes: map[string]int64{}}
	for _, c := range containers {
		name := c.GetAttributes().GetMetadata().GetName()
		one := u.Containers[name]
		one.Memory += int64(c.GetMemory().GetWorkingSetBytes().GetValue())
		one.Storage += int64(c.GetWritableLayer().GetUsedBytes().GetValue())
		u.Containers[name] = one
		u.Inodes += int64(c.GetWritableLayer().GetInodesUsed().GetValue())
	}
	for name, files := range disk.containers {
		one := u.Containers[name]
		one.Storage += files.Bytes
		u.Containers[name] = one
		u.Inodes += files.Inodes
	}
	for _, one := range u.Containers {
		u.Memory, u.Storage = u.Memory+one.Memory, u.Storage+one.Storage
	}
	if memory, ok := m.config.Memory(pod); ok {
		u.Memory = max(u.Memory, memory)
	}
	u.Storage, u.Inodes = u.Storage+disk.hosts.Bytes, u.Inodes+disk.hosts.Inodes
	for name, files := range disk.volumes {
		u.Volumes[name] = files.Bytes
		u.Storage, u.Inodes = u.Storage+files.Bytes, u.Inodes+files.Inodes
	}
	if n, ok := m.config.Processes(pod); ok {
		u.Processes = int64(n)
	}
	return u
}

// measure measures what a pod can write to on the disk, besides the writable layers of its containers:
// logs, termination messages, the hosts file and emptyDir volumes. It does not if it was done a moment ago, or
// if ctx is done. A measurement that takes too long is a part of the truth: what was more before counts.
func (m *Meter) measure(ctx context.Context, pod *corev1.Pod) error {
	begin, last := time.Now(), m.disks[pod.UID]
	if begin.Before(last.until) || ctx.Err() != nil {
		return nil
	}
	now := measured{containers: map[string]diskusage.Usage{}, volumes: map[string]diskusage.Usage{}}
	var errs []error
	of := func(name string, last diskusage.Usage, paths ...string) (u diskusage.Usage) {
		whole := true
		for _, path := range paths {
			one, err := diskusage.Of(ctx, path)
			if u.Add(one); err != nil {
				whole = false
				errs = append(errs, fmt.Errorf("disk usage of pod %s/%s, %s: %w", pod.Namespace, pod.Name, name, err))
			}
		}
		if !whole {
			u = diskusage.Usage{Bytes: max(u.Bytes, last.Bytes), Inodes: max(u.Inodes, last.Inodes)}
		}
		return u
	}
	logs, files := m.config.LogDirectory(pod), m.config.PodDirectory(pod.UID)
	for _, name := range containerNames(pod) {
		now.containers[name] = of(name, last.containers[name], filepath.Join(logs, name), filepath.Join(files, "containers", name))
	}
	now.hosts = of("etc-hosts", last.hosts, filepath.Join(files, "etc-hosts"))
	for i := range pod.Spec.Volumes {
		// The size of a volume in memory is limited by its mount.
		if v := &pod.Spec.Volumes[i]; v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault {
			now.volumes[v.Name] = of(v.Name, last.volumes[v.Name], filepath.Join(files, "volumes", "kubernetes.io~empty-dir", v.Name))
		}
	}
	now.took = time.Since(begin)
	now.until = time.Now().Add(meterRest * now.took)
	m.disks[pod.UID] = now
	return errors.Join(errs...)
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	return names
}

// ImageFileSystem returns the file system of the runtime's images.
func ImageFileSystem(ctx context.Context, stats Stats) (machine.FileSystem, error) {
	fs, _, err := imageFileSystem(ctx, stats)
	return fs, err
}

// ImagePath returns a path in the file system of the runtime's images.
func ImagePath(ctx context.Context, stats Stats) (string, error) {
	_, path, err := imageFileSystem(ctx, stats)
	return path, err
}

func imageFileSystem(ctx context.Context, stats Stats) (fs machine.FileSystem, path string, err error) {
	info, err := stats.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return machine.FileSystem{}, "", err
	}
	errs := []error{errors.New("the runtime names no file system of images that this host has")}
	for _, f := range info.GetImageFilesystems() {
		path := f.GetFsId().GetMountpoint()
		fs, err := machine.FileSystemOf(path)
		if err == nil {
			return fs, path, nil
		}
		errs = append(errs, err)
	}
	return machine.FileSystem{}, "", errors.Join(errs...)
}
