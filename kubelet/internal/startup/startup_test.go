package startup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var created = time.Unix(1000, 0)

// podWith returns a pod whose containers have states.
func podWith(states ...corev1.ContainerState) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}}
	for _, s := range states {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{State: s})
	}
	return pod
}

func runs() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(created.Add(time.Second))}}
}

// TestTimer: pulls and init containers are no part of the SLI, and a start is measured once.
func TestTimer(t *testing.T) {
	at := func(seconds int) time.Time { return created.Add(time.Duration(seconds) * time.Second) }
	timer := New(podWith())
	timer.Pulled(at(1)) // without a beginning
	timer.Pulling(at(2))
	timer.Pulling(at(4)) // the first attempt has failed
	timer.Pulled(at(7))
	timer.Pulling(at(8))
	timer.Pulled(at(10))
	timer.Init(3 * time.Second)
	for _, pod := range []*corev1.Pod{podWith(), podWith(runs(), corev1.ContainerState{}), podWith(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})} {
		if took, ok := timer.Observe(pod, at(20)); ok || timer.Done() {
			t.Errorf("Observe(%v) = %+v, %v, Done %v; want false and not done", &pod.Status, took, ok, timer.Done())
		}
	}
	if took, ok := timer.Observe(podWith(runs(), runs()), at(20)); !ok || took != (Took{Total: 20 * time.Second, SLI: 10 * time.Second}) {
		t.Errorf("Observe(all containers run) = %+v, %v, want 20s in total, 10s of SLI, true", took, ok)
	}
	if took, ok := timer.Observe(podWith(runs()), at(21)); ok || !timer.Done() {
		t.Errorf("measured twice: %+v", took)
	}
}

// TestNotMeasured: pods that ran before, and pods that have ended.
func TestNotMeasured(t *testing.T) {
	old := podWith(runs())
	old.Status.StartTime = &metav1.Time{Time: created}
	if _, ok := New(old).Observe(old, created); ok {
		t.Error("a pod of an earlier kubelet is measured")
	}
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		ended := podWith()
		ended.Status.Phase = phase
		timer := New(ended)
		if _, ok := timer.Observe(ended, created); ok || !timer.Done() {
			t.Errorf("%s is measured", phase)
		}
	}
}

// TestSkew: a clock that is behind the API server's makes no negative durations.
func TestSkew(t *testing.T) {
	timer := New(podWith())
	if took, ok := timer.Observe(podWith(runs()), created.Add(-time.Second)); !ok || took != (Took{}) {
		t.Errorf("Observe(before the creation) = %+v, %v, want no time, true", took, ok)
	}
}

// TestStateful: volumes of a pod's own do not make it stateful.
func TestStateful(t *testing.T) {
	for _, test := range []struct {
		source corev1.VolumeSource
		want   bool
	}{
		{corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}, false},
		{corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, false},
		{corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, false},
		{corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, false},
		{corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}, false},
		{corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}, true},
		{corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}, true},
	} {
		pod := podWith(runs())
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: test.source}}
		if took, ok := New(podWith()).Observe(pod, created); !ok || took.Stateful != test.want {
			t.Errorf("Observe(a volume of %v) = %+v, %v, want Stateful %v, true", &test.source, took, ok, test.want)
		}
	}
}
