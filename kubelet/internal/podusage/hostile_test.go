package podusage

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const page = 4096

func podWithVolume(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web"}},
		Volumes:    []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}}
}

// TestFilesThatTheKubeletMakes: what a pod writes to its hosts file and its termination message counts as
// its own, and so does each file that it makes.
func TestFilesThatTheKubeletMakes(t *testing.T) {
	root := t.TempDir()
	write(t, 10*page, root, "pods", "a", "etc-hosts")
	write(t, 5*page, root, "pods", "a", "containers", "web", "0")
	usages, err := newMeter(root, &stats{}).Usages(t.Context(), []*corev1.Pod{podWithVolume("a")})
	if err != nil {
		t.Fatal(err)
	}
	u := usages[0]
	if u.Storage < 15*page || u.Inodes < 2 || u.Containers["web"].Storage < 5*page || u.Containers["web"].Storage > 10*page {
		t.Errorf("Usages() = %d bytes, %d inodes, %+v of containers; want 15 pages, 5 of them of the container", u.Storage, u.Inodes, u.Containers)
	}
}

// TestSlowNeighbour: a pod whose files take too long to count keeps no other pod from being measured, and
// what was known of a pod before counts until it is measured again.
func TestSlowNeighbour(t *testing.T) {
	root := t.TempDir()
	const files = 600 // more than are counted between two looks at the context
	pods := []*corev1.Pod{podWithVolume("slow"), podWithVolume("quick")}
	for _, pod := range pods {
		for i := range files {
			write(t, 1, root, "pods", pod.Name, "volumes", "kubernetes.io~empty-dir", "disk", fmt.Sprint(i))
		}
	}
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(root, &stats{})
		m.config.LogDirectory = func(pod *corev1.Pod) string {
			if pod.Name == "slow" {
				time.Sleep(2 * meterTimeout)
			}
			return filepath.Join(root, "logs", pod.Name)
		}
		check := func(ctx context.Context, when string) {
			t.Helper()
			usages, _ := m.Usages(ctx, pods)
			if u := usages[1]; u.Inodes < files || u.Storage < files*page {
				t.Errorf("%s: %d inodes and %d bytes of the quick pod, want %d and %d", when, u.Inodes, u.Storage, files, files*page)
			}
		}
		_, _ = m.Usages(t.Context(), pods)
		check(t.Context(), "while the slow pod rests")
		time.Sleep(meterRest*2*meterTimeout + time.Second)
		check(t.Context(), "when both are due")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Second)
		check(ended, "without time")
	})
}
