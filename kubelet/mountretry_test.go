package kubelet_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// countedEvents counts the writes of events.
type countedEvents struct {
	kubelet.Events
	writes *atomic.Int64
}

func (c countedEvents) Create(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	c.writes.Add(1)
	return c.Events.Create(ctx, e)
}

func (c countedEvents) Update(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	c.writes.Add(1)
	return c.Events.Update(ctx, e)
}

// TestStuckPodIsRetriedSeldom: a pod that cannot be set up costs some tens of API calls an
// hour, has one event for what is wrong, and starts once that is put right.
func TestStuckPodIsRetriedSeldom(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "settings")
	unsupported := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}}
	missing := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	variable := corev1.EnvVar{Name: "V", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "a.conf"}}}
	for _, test := range []struct {
		name    string
		change  func(*corev1.PodSpec)
		reason  string
		message string
		// reads bounds what is asked of config maps in an hour, writes of events.
		reads, writes int64
		mends         bool
	}{
		{"kind of volume", func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{unsupported} },
			"FailedMount", `MountVolume.SetUp failed for volume "v" : this kind of volume is not supported by this kubelet`, 0, 40, false},
		{"missing config map", func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{missing} },
			"FailedMount", `MountVolume.SetUp failed for volume "v" : configmap "settings" not found`, 50, 40, true},
		{"missing variable", func(s *corev1.PodSpec) { s.Containers[0].Env = []corev1.EnvVar{variable} },
			"Failed", `Error: configmap "settings" not found`, 400, 80, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				runtime, err := memruntime.New(memruntime.Config{Socket: "/not/listened/at"})
				if err != nil {
					t.Fatal(err)
				}
				r := rigOn(t, runtime, runtime)
				var reads, writes atomic.Int64
				var there atomic.Bool
				r.config.Events = countedEvents{eventAPI{r.api}, &writes}
				r.config.ConfigMaps = func(context.Context, string, string) (*corev1.ConfigMap, error) {
					reads.Add(1)
					if !there.Load() {
						return nil, notFound
					}
					return &corev1.ConfigMap{Data: map[string]string{"a.conf": "alpha"}}, nil
				}
				r.start()
				synctest.Wait()
				pod := webPod("stuck")
				test.change(&pod.Spec)
				begin := writes.Load()
				r.api.create(pod)
				time.Sleep(time.Hour)
				synctest.Wait()
				if n := reads.Load(); n > test.reads {
					t.Errorf("%d reads of config maps in an hour, want at most %d", n, test.reads)
				}
				if n := writes.Load() - begin; n < 2 || n > test.writes {
					t.Errorf("%d writes of events in an hour, want 2 to %d", n, test.writes)
				}
				if got := r.api.eventsAbout("stuck", test.reason); len(got) != 1 || got[0].Message != test.message || got[0].Count < 10 {
					t.Errorf("events %s, want one: %s", describe(got), test.message)
				}
				there.Store(true)
				if test.mends {
					start := time.Now()
					r.api.await(t, "stuck", "running", running)
					if took := time.Since(start); took > 2*time.Minute+2*time.Second {
						t.Errorf("the pod started %v after what it lacked was there", took)
					}
				}
				r.api.delete("stuck", 0)
				r.api.await(t, "stuck", "gone", gone)
				r.stop()
			})
		})
	}
}

// eventsAbout returns the events about a pod that have a reason.
func (a *api) eventsAbout(pod, reason string) []*corev1.Event {
	a.mu.Lock()
	defer a.mu.Unlock()
	var list []*corev1.Event
	for _, e := range a.events {
		if e.InvolvedObject.Name == pod && e.Reason == reason {
			list = append(list, e)
		}
	}
	return list
}

func describe(events []*corev1.Event) (out []string) {
	for _, e := range events {
		out = append(out, fmt.Sprintf("%d times %s: %s", e.Count, e.Reason, e.Message))
	}
	return out
}
