package podcgroups_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/internal/cgroup"
	"github.com/planekit/planekit/kubelet/internal/cgroup/cgrouptest"
	"github.com/planekit/planekit/kubelet/internal/podcgroups"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const (
	mebi = int64(1) << 20
	gibi = int64(1) << 30
)

// size is a pod of the model. A number that is zero is not in the pod.
type size struct {
	class                     corev1.PodQOSClass
	cpu, quota, memory, pages int64 // thousandths of a cpu, and bytes
	// flat is where an earlier kubelet had the pod: below the root.
	flat bool
}

func (s size) pod(uid types.UID) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.UID = uid
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	set := func(list corev1.ResourceList, name corev1.ResourceName, q *resource.Quantity) {
		if !q.IsZero() {
			list[name] = *q
		}
	}
	set(requests, corev1.ResourceCPU, resource.NewMilliQuantity(s.cpu, resource.DecimalSI))
	set(limits, corev1.ResourceCPU, resource.NewMilliQuantity(s.quota, resource.DecimalSI))
	set(limits, corev1.ResourceMemory, resource.NewQuantity(s.memory, resource.BinarySI))
	set(requests, "hugepages-2Mi", resource.NewQuantity(s.pages, resource.BinarySI))
	if s.class == corev1.PodQOSGuaranteed {
		set(requests, corev1.ResourceMemory, resource.NewQuantity(s.memory, resource.BinarySI))
	}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}}
	return pod
}

// model describes the tree of cgroups that the pods need.
type model struct {
	version int
	pods    map[types.UID]size
}

// tree returns the tree for the pods: it depends on nothing else.
func (m model) tree() map[string]string {
	out := map[string]string{}
	directory := func(path string) {
		if m.version == 2 {
			out[path] = "directory"
			return
		}
		for _, controller := range []string{"cpu", "memory", "pids", "hugetlb"} {
			out[filepath.Join(controller, path)] = "directory"
		}
	}
	// put adds a file, unless it has what a new cgroup has.
	put := func(controller, path, file, value, first string) {
		if m.version == 1 {
			path = filepath.Join(controller, path)
		}
		if value != first {
			out[filepath.Join(path, file)] = value
		}
	}
	shares := func(path string, n int64) {
		if m.version == 1 {
			put("cpu", path, "cpu.shares", fmt.Sprint(n), "1024")
			return
		}
		put("cpu", path, "cpu.weight", fmt.Sprint(1+(n-2)*9999/262142), "100")
	}
	pages := func(path, name string, n int64) {
		switch {
		case m.version == 1:
			put("hugetlb", path, "hugetlb."+name+".limit_in_bytes", fmt.Sprint(n), "")
		case n < cgroup.Unlimited:
			put("hugetlb", path, "hugetlb."+name+".max", fmt.Sprint(n), "")
			put("hugetlb", path, "hugetlb."+name+".rsvd.max", fmt.Sprint(n), "")
		}
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	limited := func(path string, s size) {
		if s.quota > 0 {
			if quota := max(s.quota*100, 1000); m.version == 1 {
				put("cpu", path, "cpu.cfs_quota_us", number(quota), "")
			} else {
				put("cpu", path, "cpu.max", number(quota)+" 100000", "")
			}
		}
		if s.memory > 0 {
			put("memory", path, map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[m.version], number(s.memory), "")
		}
	}
	if m.version == 1 {
		directory("")
		out["cpuset"] = "directory"
	}
	directory("kubepods")
	shares("kubepods", 4096)
	limited("kubepods", size{memory: 8 * gibi})
	put("pids", "kubepods", "pids.max", "30000", "")
	pages("kubepods", "2MB", 64*mebi)
	pages("kubepods", "1GB", 0)
	var burstable int64
	for uid, s := range m.pods {
		path, weight := filepath.Join("kubepods", "pod"+string(uid)), max(s.cpu*1024/1000, 2)
		switch {
		case s.class == corev1.PodQOSBurstable:
			burstable += s.cpu
			if !s.flat {
				path = filepath.Join("kubepods/burstable", "pod"+string(uid))
			}
		case s.class == corev1.PodQOSBestEffort && !s.flat:
			path = filepath.Join("kubepods/besteffort", "pod"+string(uid))
		}
		directory(path)
		shares(path, weight)
		limited(path, s)
		put("pids", path, "pids.max", "500", "")
		pages(path, "2MB", s.pages)
		pages(path, "1GB", 0)
	}
	for class, n := range map[string]int64{"burstable": max(burstable*1024/1000, 2), "besteffort": 2} {
		directory("kubepods/" + class)
		shares("kubepods/"+class, n)
		pages("kubepods/"+class, "2MB", cgroup.Unlimited)
		pages("kubepods/"+class, "1GB", cgroup.Unlimited)
	}
	return out
}

// world has the cgroups of a kubelet and what they must be.
type world struct {
	model
	t      *testing.T
	random *rand.Rand
	kernel *cgrouptest.Kernel
	fs     cgroup.FS
	groups *podcgroups.Groups
	next   int
	// starting means that the kubelet does not know all pods yet.
	starting bool
}

func newWorld(t *testing.T, version int, seed uint64) *world {
	kernel, err := cgrouptest.New(t.TempDir(), version, "cpu", "cpuset", "memory", "pids", "hugetlb")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		model: model{version, map[types.UID]size{}}, t: t, random: rand.New(rand.NewPCG(seed, 1)), kernel: kernel,
		fs: cgroup.FS{Mount: kernel.Mount, Disk: kernel},
	}
	w.groups = podcgroups.New(podcgroups.Config{
		FS: w.fs, Root: "/kubepods", PerQOS: true, Processes: 500,
		PageSizes: func() []int64 { return []int64{2 * mebi, gibi} },
		Pods: func() (pods []*corev1.Pod, all bool) {
			for uid, s := range w.pods {
				pods = append(pods, s.pod(uid))
			}
			return pods, !w.starting
		},
	})
	return w
}

var node = corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), podcgroups.Processes: resource.MustParse("30000"),
	"hugepages-2Mi": resource.MustParse("64Mi"), "hugepages-1Gi": resource.MustParse("0"),
}

// resized returns a pod with the class and kinds of limits of another, but new numbers.
func (w *world) resized(s size) size {
	if s.class == corev1.PodQOSBestEffort {
		return s
	}
	again := func(n *int64, unit int64) {
		if *n > 0 {
			*n = unit * (1 + w.random.Int64N(3000))
		}
	}
	again(&s.cpu, 1)
	again(&s.quota, 1)
	again(&s.memory, 4096)
	if s.class == corev1.PodQOSGuaranteed {
		s.quota = s.cpu
	}
	return s
}

// come adds a pod, which an earlier kubelet may have started.
func (w *world) come() {
	w.next++
	uid := types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", w.next))
	s := size{class: corev1.PodQOSBestEffort}
	some := func() int64 { return w.random.Int64N(2) }
	switch w.random.IntN(3) {
	case 0:
		s = w.resized(size{class: corev1.PodQOSGuaranteed, cpu: 1, quota: 1, memory: 1, pages: 2 * mebi * some()})
	case 1:
		s = w.resized(size{class: corev1.PodQOSBurstable, cpu: 1, quota: some(), memory: some(), pages: 2 * mebi * some()})
	}
	if w.random.IntN(4) == 0 {
		s.flat = true
		if err := w.fs.Create("/kubepods/pod"+string(uid), cgroup.Settings{}); err != nil {
			w.problem(err)
			s.flat = w.fs.Exists("/kubepods/pod" + string(uid))
		}
	}
	w.pods[uid] = s
	w.problem(w.groups.Update())
	_, err := w.groups.Create(s.pod(uid))
	w.problem(err)
	w.problem(w.container(uid))
}

// container creates the cgroup of a container, as a runtime does.
func (w *world) container(uid types.UID) error {
	return w.fs.Create(w.groups.Path(w.pods[uid].pod(uid))+"/container", cgroup.Settings{})
}

// step changes one pod.
func (w *world) step() {
	uids := slices.Sorted(maps.Keys(w.pods))
	if len(uids) == 0 || len(uids) < 12 && w.random.IntN(3) == 0 {
		w.come()
		return
	}
	uid := uids[w.random.IntN(len(uids))]
	if w.random.IntN(2) == 0 {
		w.pods[uid] = w.resized(w.pods[uid])
		_, err := w.groups.Create(w.pods[uid].pod(uid))
		w.problem(err)
	} else {
		w.problem(w.groups.Remove(uid))
		delete(w.pods, uid)
	}
	w.problem(w.groups.Update())
}

// problem fails the test if there is an error that no fault caused.
func (w *world) problem(err error) {
	if err != nil && w.kernel.Fault == nil {
		w.t.Fatal(err)
	}
}

// check compares the tree with the model. The cgroups of containers are those of their runtime.
func (w *world) check() {
	w.t.Helper()
	got, err := w.kernel.Tree(".")
	if err != nil {
		w.t.Fatal(err)
	}
	maps.DeleteFunc(got, func(path, _ string) bool {
		return filepath.Base(path) == "container" || filepath.Base(filepath.Dir(path)) == "container"
	})
	for path, value := range w.tree() {
		if got[path] != value {
			w.t.Errorf("%s is %q, want %q", path, got[path], value)
		}
		delete(got, path)
	}
	if len(got) > 0 {
		w.t.Errorf("too many: %v", got)
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
}

// TestModel: pods come, are resized and go. After each step, the tree is a function of the pods.
func TestModel(t *testing.T) {
	for _, version := range []int{1, 2} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Logf("seed %d", seed)
			w := newWorld(t, version, seed)
			for _, err := range []error{w.groups.Limit(node), w.groups.Update()} {
				if err != nil {
					t.Fatal(err)
				}
			}
			w.check()
			for range 40 {
				w.step()
				w.check()
			}
		})
	}
}

// fault returns the kernel's faults: what is removed is busy or was removed by another program, what is
// written is refused, and there is no memory for a cgroup.
func (w *world) fault() func(operation, path string) error {
	return func(operation, path string) error {
		if w.random.IntN(6) > 0 {
			return nil
		}
		switch operation {
		case "mkdir":
			return syscall.ENOMEM
		case "rmdir":
			if w.random.IntN(2) == 0 {
				return syscall.EBUSY
			}
			if err := os.RemoveAll(filepath.Join(w.kernel.Mount, path)); err != nil {
				return err
			}
			return syscall.ENOENT
		case "write":
			return []error{syscall.EBUSY, syscall.EIO, syscall.ENODEV, syscall.EINVAL}[w.random.IntN(4)]
		}
		return nil
	}
}

// TestModelWithFaults: whatever fails, once nothing fails any more the tree is that of the pods after one
// round of what a kubelet does again and again. Nothing is left of pods that have gone.
func TestModelWithFaults(t *testing.T) {
	for _, version := range []int{1, 2} {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			t.Logf("seed %d", seed)
			w := newWorld(t, version, seed)
			for range 8 {
				w.kernel.Fault = w.fault()
				w.problem(w.groups.Limit(node))
				for range 8 {
					w.step()
				}
				w.kernel.Fault = nil
				w.settle()
				w.check()
			}
		})
	}
}

// settle does what a kubelet does every few seconds or minutes.
func (w *world) settle() {
	uids, err := w.groups.Found()
	w.problem(err)
	for _, uid := range uids {
		if _, ok := w.pods[uid]; !ok {
			w.problem(w.groups.Remove(uid))
		}
	}
	w.problem(w.groups.Limit(node))
	w.problem(w.groups.Update())
	for uid, s := range w.pods {
		_, err := w.groups.Create(s.pod(uid))
		w.problem(err)
	}
}
