// Package podcgroups keeps the cgroups of the pods of a node: one for all pods, below it one for all
// burstable pods and one for all best effort pods, and in these, or in the first for a guaranteed pod,
// one for each pod.
//
//	groups := podcgroups.New(podcgroups.Config{FS: cgroup.FS{Mount: "/sys/fs/cgroup"}, Root: "/kubepods", PerQOS: true})
//	limits, err := groups.Create(pod) // /kubepods/burstable/podUID
//
// A pod that has a cgroup in another of the three places, because an earlier kubelet made it there, keeps
// it. Nothing is remembered: what there is, is read from the file system.
package podcgroups

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/machine"
	"github.com/planekit/planekit/kubelet/internal/qos"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Config describes Groups.
type Config struct {
	FS cgroup.FS
	// Root is the cgroup of all pods, such as /kubepods. Empty means that pods have no cgroups, and that
	// all methods do nothing.
	Root string
	// PerQOS gives pods cgroups. Without it, there are only those that an earlier kubelet made.
	PerQOS bool
	// Processes is the largest number of processes of a pod. Zero means no limit.
	Processes int64
	// PageSizes returns the sizes of the machine's huge pages in bytes. Nil means that there are none.
	PageSizes func() []int64
	// Pods returns the pods that run or may start, and whether these are all: a kubelet that has just been
	// started does not know yet. It is needed by Update.
	Pods func() (pods []*corev1.Pod, all bool)
}

// Groups are the cgroups of the pods of a node. The methods may be called at the same time, those that
// change a pod's cgroup once at a time for each pod.
type Groups struct {
	config Config
	// mu keeps an older list of pods from being written after a newer one.
	mu sync.Mutex
}

// New returns the cgroups that c describes.
func New(c Config) *Groups { return &Groups{config: c} }

// places are the parents of pods below the root, in the order in which they are looked for.
var places = []string{"", "burstable", "besteffort"}

// place returns the parent of a pod below the root.
func place(pod *corev1.Pod) string {
	switch qos.Class(pod) {
	case corev1.PodQOSGuaranteed:
		return ""
	case corev1.PodQOSBestEffort:
		return "besteffort"
	}
	return "burstable"
}

func (g *Groups) path(place string, uid types.UID) string {
	return filepath.Join(g.config.Root, place, "pod"+string(uid))
}

// Path returns the cgroup of a pod, such as /kubepods/burstable/podUID: the one that exists, or else the
// one that Create creates. It is empty if the pod has none.
func (g *Groups) Path(pod *corev1.Pod) string {
	if g.config.Root == "" {
		return ""
	}
	own := g.path(place(pod), pod.UID)
	if g.config.FS.Exists(own) {
		return own
	}
	for _, place := range places {
		if path := g.path(place, pod.UID); path != own && g.config.FS.Exists(path) {
			return path
		}
	}
	if !g.config.PerQOS {
		return ""
	}
	return own
}

// Exists reports whether a pod has a cgroup, in whatever place it is.
func (g *Groups) Exists(uid types.UID) bool {
	return g.config.Root != "" && slices.ContainsFunc(places, func(place string) bool { return g.config.FS.Exists(g.path(place, uid)) })
}

// Create creates the cgroup of a pod, if it does not exist, and sets its limits, which it returns. It
// returns nil if the pod has no cgroup.
func (g *Groups) Create(pod *corev1.Pod) (*cgroup.Limits, error) {
	path := g.Path(pod)
	if path == "" {
		return nil, nil
	}
	limits := qos.Limits(pod)
	err := g.config.FS.Create(path, cgroup.Settings{
		Limits: limits, Processes: g.config.Processes, HugePages: g.pages(qos.HugePages(pod), 0),
	})
	if err != nil {
		return nil, err
	}
	return &limits, nil
}

// pages returns the limits of huge pages of each size that the machine has: those in bytes, or else rest.
func (g *Groups) pages(bytes map[int64]int64, rest int64) map[string]int64 {
	if g.config.PageSizes == nil {
		return nil
	}
	out := map[string]int64{}
	for _, size := range g.config.PageSizes() {
		n, ok := bytes[size]
		if !ok {
			n = rest
		}
		out[machine.HugePages{Size: size}.Name()] = n
	}
	return out
}

// Limit limits all pods together to what there is of cpu, memory, huge pages and processes in list. It
// creates their cgroup, if it does not exist.
func (g *Groups) Limit(list corev1.ResourceList) error {
	if g.config.Root == "" || !g.config.PerQOS {
		return nil
	}
	s := cgroup.Settings{
		Limits:    cgroup.Limits{Shares: qos.CPUShares(list.Cpu().MilliValue()), Memory: list.Memory().Value()},
		HugePages: g.pages(qos.HugePagesOf(list), 0),
	}
	if processes := list[Processes]; g.config.FS.Has("pids") {
		s.Processes = processes.Value()
	}
	return g.config.FS.Create(g.config.Root, s)
}

// Processes is the name of the number of processes in a list of resources, as in kubeReserved.
const Processes corev1.ResourceName = "pid"

// Update creates the cgroups of the qualities of service, if they do not exist. That of burstable pods
// gets the weight of what all burstable pods request together; that of best effort pods gets the least.
// Neither limits huge pages. As long as not all pods are known, burstable pods do not lose weight.
func (g *Groups) Update() error {
	if g.config.Root == "" || !g.config.PerQOS {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	pods, all := g.config.Pods()
	burstable := qos.BurstableShares(pods)
	if now, err := g.config.FS.Limits(filepath.Join(g.config.Root, "burstable")); err == nil && !all {
		burstable = max(burstable, now.Shares)
	}
	for place, shares := range map[string]int64{"burstable": burstable, "besteffort": qos.MinShares} {
		errs = append(errs, g.config.FS.Create(filepath.Join(g.config.Root, place), cgroup.Settings{
			Limits: cgroup.Limits{Shares: shares}, HugePages: g.pages(nil, cgroup.Unlimited),
		}))
	}
	return errors.Join(errs...)
}

// Enforce limits an existing cgroup, such as that of the system's daemons, to list: to all that it has of
// cpu, memory, processes and huge pages, or of cpu alone.
func (g *Groups) Enforce(path string, list corev1.ResourceList, cpuOnly bool) error {
	if !g.config.FS.Exists(path) {
		return fmt.Errorf("cgroup %q does not exist", path)
	}
	var s cgroup.Settings
	if q, ok := list[corev1.ResourceCPU]; ok {
		s.Shares = qos.CPUShares(q.MilliValue())
	}
	if !cpuOnly {
		processes := list[Processes]
		s.Memory, s.Processes, s.HugePages = list.Memory().Value(), processes.Value(), g.pages(qos.HugePagesOf(list), 0)
	}
	return g.config.FS.Create(path, s)
}

// Remove removes the cgroups of a pod, in whatever place they are, and kills the processes in them, as
// upstream's kubelet does.
func (g *Groups) Remove(uid types.UID) error {
	if g.config.Root == "" {
		return nil
	}
	var errs []error
	for _, place := range places {
		path := g.path(place, uid)
		errs = append(errs, g.config.FS.Kill(path), g.config.FS.Remove(path))
	}
	return errors.Join(errs...)
}

// Found returns the pods that have cgroups, in whatever place these are.
func (g *Groups) Found() ([]types.UID, error) {
	if g.config.Root == "" {
		return nil, nil
	}
	var uids []types.UID
	var errs []error
	for _, place := range places {
		names, err := g.config.FS.Children(filepath.Join(g.config.Root, place))
		errs = append(errs, err)
		for _, name := range names {
			if uid, ok := strings.CutPrefix(name, "pod"); ok && uid != "" && !slices.Contains(uids, types.UID(uid)) {
				uids = append(uids, types.UID(uid))
			}
		}
	}
	return uids, errors.Join(errs...)
}

// RemoveEmpty removes the cgroups of the qualities of service, and that of all pods with its empty
// parents, unless there are pods in them.
func (g *Groups) RemoveEmpty() error {
	if g.config.Root == "" {
		return nil
	}
	var errs []error
	for _, place := range slices.Backward(places) {
		errs = append(errs, g.config.FS.RemoveEmpty(filepath.Join(g.config.Root, place)))
	}
	return errors.Join(errs...)
}
