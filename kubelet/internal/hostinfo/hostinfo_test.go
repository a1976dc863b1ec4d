package hostinfo

import (
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestRead: an override replaces what was read, and the bound of pods applies after it.
func TestRead(t *testing.T) {
	info := Read(t.TempDir(), nil, 0, "v1.36.0")
	if got := info.Capacity.Cpu().Value(); got != int64(runtime.NumCPU()) {
		t.Errorf("%d CPUs, want %d", got, runtime.NumCPU())
	}
	if got := info.Capacity.Pods().Value(); got != maxPods {
		t.Errorf("%d pods, want %d", got, maxPods)
	}
	if info.System.KubeletVersion != "v1.36.0" || info.System.OperatingSystem != runtime.GOOS {
		t.Errorf("system %+v", info.System)
	}
	info = Read(t.TempDir(), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}, 5, "")
	if cpus, pods := info.Capacity.Cpu().Value(), info.Capacity.Pods().Value(); cpus != 3 || pods != 15 {
		t.Errorf("%d CPUs and %d pods, want 3 and 15", cpus, pods)
	}
}
