package podusage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/podconfig"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stats answers with fixed statistics.
type stats struct {
	containers []*runtimeapi.ContainerStats
	images     string // a path in the images' file system
	err        error
}

func (s *stats) ListContainerStats(_ context.Context, r *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	if r.GetFilter().GetLabelSelector()[podconfig.LabelNode] != "node-1" {
		return nil, errors.New("not filtered by node")
	}
	return &runtimeapi.ListContainerStatsResponse{Stats: s.containers}, s.err
}

func (s *stats) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/of/another/host"}}, {FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: s.images}},
	}}, s.err
}

func container(uid types.UID, name string, memory, bytes uint64) *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Labels: map[string]string{podconfig.LabelPodUID: string(uid)},
		},
		Memory:        &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}},
		WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{Value: bytes}, InodesUsed: &runtimeapi.UInt64Value{Value: 1}},
	}
}

// newMeter returns a meter whose pods have their directories below root.
func newMeter(root string, s *stats) *Meter {
	return New(Config{
		Stats: s, NodeName: "node-1", Root: root,
		PodDirectory: func(uid types.UID) string { return filepath.Join(root, "pods", string(uid)) },
		LogDirectory: func(pod *corev1.Pod) string { return filepath.Join(root, "logs", string(pod.UID)) },
		Processes:    func(pod *corev1.Pod) (int, bool) { return 7, pod.Name == "web" },
		Memory:       func(pod *corev1.Pod) (int64, bool) { return 4 << 20, pod.Name == "volume" },
		Allocatable:  func() (eviction.Level, bool) { return eviction.Level{Available: 3, Capacity: 5}, true },
	})
}

func write(t *testing.T, bytes int, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, make([]byte, bytes), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A Meter measures the disk space and the memory of a pod.
func Example() {
	root, err := os.MkdirTemp("", "podusage")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	meter := newMeter(root, &stats{containers: []*runtimeapi.ContainerStats{container("u", "web", 100, 4096)}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}
	usages, err := meter.Usages(context.Background(), []*corev1.Pod{pod})
	fmt.Println(usages[0].Memory, usages[0].Storage, usages[0].Processes, err)
	// Output: 100 4096 7 <nil>
}

// TestUsages checks what is added up: the writable layers of all containers, also of those that were restarted, logs,
// and volumes on the disk.
func TestUsages(t *testing.T) {
	root := t.TempDir()
	const page = 4096 // the least that a file with a byte takes
	write(t, 10*page, root, "logs", "u", "web", "0.log")
	write(t, page, root, "logs", "u", "init", "0.log")
	write(t, page, root, "logs", "u", "debugger", "0.log")
	write(t, 5*page, root, "pods", "u", "volumes", "kubernetes.io~empty-dir", "disk", "file")
	write(t, 9*page, root, "pods", "u", "volumes", "kubernetes.io~empty-dir", "memory", "file")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: corev1.PodSpec{
		InitContainers:      []corev1.Container{{Name: "init"}},
		Containers:          []corev1.Container{{Name: "web"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger"}}},
		Volumes: []corev1.Volume{
			{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			{Name: "configuration", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		},
	}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "v"}}
	s := &stats{containers: []*runtimeapi.ContainerStats{
		container("u", "web", 100, page), container("u", "web", 0, page), container("u", "init", 0, page), container("gone", "x", 1<<40, 1<<40),
	}}
	m := newMeter(root, s)
	usages, err := m.Usages(t.Context(), []*corev1.Pod{pod, other})
	if err != nil || len(usages) != 2 {
		t.Fatal(usages, err)
	}
	u := usages[0]
	// A directory may take space of its own.
	if least := int64(20 * page); u.Memory != 100 || u.Storage < least || u.Storage > least+10*page || u.Volumes["disk"] < 5*page || len(u.Volumes) != 1 {
		t.Errorf("Usages()[0] = %+v, want memory 100, storage of %d to %d, at least %d of the volume disk, no other volume",
			u, least, least+10*page, 5*page)
	}
	if web := u.Containers["web"]; web.Memory != 100 || web.Storage < 12*page || u.Containers["debugger"].Storage < page || u.Processes != 7 || u.Inodes < 3+4 {
		t.Errorf("Usages()[0] = %+v, want web with memory 100 and storage >= %d, debugger with storage >= %d, 7 processes, inodes >= 7",
			u, 12*page, page)
	}
	if o := usages[1]; o.Memory != 0 || o.Storage != 0 || o.Processes != 0 {
		t.Errorf("a pod that has nothing: %+v", o)
	}

	// Statistics that are away leave what the disk says.
	s.containers, s.err = nil, errors.New("the runtime is away")
	usages, err = m.Usages(t.Context(), []*corev1.Pod{pod})
	if !errors.Is(err, s.err) || len(usages) != 1 || usages[0].Storage < 17*page {
		t.Errorf("Usages = %+v, %v, want one with storage of at least %d, and the error %v", usages, err, 17*page, s.err)
	}
}

// TestLevels checks that everything is measured, and that what cannot be is left out and said.
func TestLevels(t *testing.T) {
	root := t.TempDir()
	s := &stats{images: root}
	levels, err := newMeter(root, s).Levels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, signal := range []eviction.Signal{eviction.MemoryAvailable, eviction.PIDAvailable, eviction.NodeFSAvailable, eviction.ImageFSAvailable} {
		if l := levels[signal]; l.Available <= 0 || l.Available > l.Capacity {
			t.Errorf("Levels()[%s] = %+v, want something available, within the capacity", signal, l)
		}
	}
	s.images = "/of/no/host"
	levels, err = newMeter(root, s).Levels(t.Context())
	if _, ok := levels[eviction.ImageFSAvailable]; ok || err == nil || !strings.Contains(err.Error(), "/of/no/host") || levels[eviction.NodeFSAvailable].Capacity == 0 {
		t.Errorf("Levels() = %+v, %v, want no ImageFSAvailable, an error of /of/no/host, and a capacity of NodeFSAvailable", levels, err)
	}
}
