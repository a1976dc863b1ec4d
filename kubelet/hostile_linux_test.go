package kubelet_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestEndlessGrace: the API takes any number of seconds. A longer grace period than a duration can hold is
// no shorter one: the preStop hook gets its time, and the containers are not killed.
func TestEndlessGrace(t *testing.T) {
	for _, seconds := range []int64{math.MaxInt64, math.MaxInt64/int64(time.Second) + 1} {
		synctest.Test(t, func(t *testing.T) {
			r := bubbleRig(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
				return memruntime.Behavior{IgnoresTerm: true}
			}})
			r.start()
			defer r.stop()
			for name, stop := range map[string]*corev1.Lifecycle{
				"hooked": {PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: seconds}}}, "stubborn": nil,
			} {
				pod := webPod(name)
				pod.Spec.TerminationGracePeriodSeconds = &seconds
				pod.Spec.Containers[0].Lifecycle = stop
				r.api.create(pod)
				r.api.await(t, name, "running", running)
				r.api.delete(name, seconds)
			}
			time.Sleep(15 * time.Minute)
			for _, name := range []string{"hooked", "stubborn"} {
				if pod := r.api.await(t, name, "there", func(pod *corev1.Pod) bool { return pod != nil }); !running(pod) {
					t.Errorf("grace %d: %s was killed: %+v", seconds, name, pod.Status)
				}
				r.api.delete(name, 1)
				r.api.await(t, name, "gone", gone)
			}
		})
	}
}

// TestLargestPod: a pod of the size that an API server takes, with a hundred containers with probes,
// a thousand volumes, and everything else that is odd, costs bounded time and memory, and the pods
// beside it run.
func TestLargestPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := bubbleRig(t, memruntime.Config{Exec: func(*runtimeapi.ContainerConfig, []string) memruntime.Program {
			return func(context.Context, memruntime.Streams) int32 { return 0 }
		}})
		r.start()
		defer r.stop()
		pod := webPod("largest")
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "zero", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("0"))}}},
			{Name: "negative", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("-1"))}}},
			{Name: "huge", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("9e99"))}}},
		}
		for i := range 1000 {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
				Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			})
		}
		for range 1000 {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(1_000_000))})
		}
		pod.Spec.Containers = nil
		for i := range 100 {
			tcp := &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{strings.Repeat("x", 100)}}}}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
				Name: fmt.Sprint("c", i), Image: "nginx:1", LivenessProbe: tcp, ReadinessProbe: tcp,
				Ports: []corev1.ContainerPort{{ContainerPort: 80}},
				VolumeMounts: []corev1.VolumeMount{
					{Name: fmt.Sprint("v", i), MountPath: "//data/../data//"}, {Name: "zero", MountPath: "/żółw/\u202e"}, {Name: "huge", MountPath: "relative"},
				},
			})
		}
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "LARGE", Value: strings.Repeat("x", 1<<20)}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := realTime()
		r.api.create(pod)
		r.api.await(t, "largest", "running", running)
		time.Sleep(10 * time.Second) // of probes
		r.api.create(webPod("beside"))
		r.api.await(t, "beside", "running", running)
		runtime.ReadMemStats(&after)
		if used := int64(after.Sys) - int64(before.Sys); used > 1<<30 {
			t.Errorf("it took %d MiB", used>>20)
		}
		if took := realTime() - begin; took > 2*time.Minute {
			t.Errorf("it took %v of the processor", took)
		}
		r.api.delete("largest", 0)
		r.api.await(t, "largest", "gone", gone)
	})
}
