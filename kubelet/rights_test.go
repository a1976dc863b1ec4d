package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// offerEverything makes a runtime announce all that a kubelet asks for.
func offerEverything(out *runtimeapi.StatusResponse) {
	out.RuntimeHandlers = []*runtimeapi.RuntimeHandler{{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}}}
	out.Features = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true}
}

// TestUserNamespaces checks that pods get ranges of IDs of their own, keep them over a restart of the
// kubelet and of the pod's sandbox, and give them back.
func TestUserNamespaces(t *testing.T) {
	r, runtime := newHeardRig(t)
	runtime.offers = offerEverything
	r.start()
	own := false
	of := func(name string) *corev1.Pod {
		pod := webPod(name)
		pod.Spec.HostUsers = &own
		return pod
	}
	host := func(pod string) uint32 {
		t.Helper()
		sandbox := runtime.sandbox(pod).GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()
		inside := runtime.container(pod).GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions()
		if len(sandbox.GetUids()) != 1 || len(inside.GetUids()) != 1 || sandbox.GetUids()[0].GetHostId() != inside.GetUids()[0].GetHostId() {
			t.Fatalf("sandbox %v, container %v", sandbox, inside)
		}
		return sandbox.GetUids()[0].GetHostId()
	}
	created := r.api.create(of("one"))
	r.api.create(of("two"))
	r.api.await(t, "one", "running", running)
	r.api.await(t, "two", "running", running)
	one, two := host("one"), host("two")
	if one == two || one == 0 || two == 0 {
		t.Errorf("%d and %d", one, two)
	}
	file := filepath.Join(r.config.Root, "pods", string(created.UID), "userns")
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), `"length":65536`) {
		t.Errorf("ReadFile(%s) = %q, %v, want %s in it", file, text, err, `"length":65536`)
	}

	r.stop()
	r.start()
	if _, err := r.client.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: r.sandboxes()[0].Id}); err != nil {
		t.Fatal(err)
	}
	r.api.create(of("three"))
	r.api.await(t, "three", "running", running)
	eventually(t, "the sandbox was replaced", func() bool {
		return runtime.sandbox("one").GetConfig().GetMetadata().GetAttempt()+runtime.sandbox("two").GetConfig().GetMetadata().GetAttempt() == 1
	})
	if host("one") != one || host("two") != two {
		t.Error("a range was lost")
	}
	if three := host("three"); three == one || three == two {
		t.Errorf("%d is that of another pod", three)
	}
	r.api.delete("one", 0)
	r.api.await(t, "one", "gone", gone)
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}

// TestUnsupportedRights checks what a pod says whose settings the runtime does not support, and that it
// starts once the runtime does.
func TestUnsupportedRights(t *testing.T) {
	r, runtime := newHeardRig(t)
	r.start()
	own, strict := false, corev1.SupplementalGroupsPolicyStrict
	users := webPod("users")
	users.Spec.HostUsers = &own
	groups := webPod("groups")
	groups.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}
	r.api.create(users)
	r.api.create(groups)
	r.api.awaitEvent(t, "users", "FailedCreatePodSandBox", "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	r.api.await(t, "groups", "refused", func(pod *corev1.Pod) bool {
		return pod != nil && pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "SupplementalGroupsPolicyNotSupported"
	})
	if runtime.sandbox("users") != nil || runtime.sandbox("groups") != nil {
		t.Error("a sandbox without what the pod asks for")
	}
	r.stop()
	runtime.offers = offerEverything // a newer runtime
	r.start()
	r.api.await(t, "users", "running", running)
	eventually(t, "the Node has the runtime's abilities", func() bool {
		r.api.mu.Lock()
		node := r.api.node
		r.api.mu.Unlock()
		return len(node.Status.RuntimeHandlers) == 1 && *node.Status.RuntimeHandlers[0].Features.UserNamespaces && *node.Status.Features.SupplementalGroupsPolicy
	})
	again := groups.DeepCopy()
	again.Name = "groups-again"
	r.api.create(again)
	r.api.await(t, "groups-again", "running", running)
	if policy := runtime.container("groups-again").GetConfig().GetLinux().GetSecurityContext().GetSupplementalGroupsPolicy(); policy != runtimeapi.SupplementalGroupsPolicy_Strict {
		t.Errorf("policy %v", policy)
	}
}

// TestReportedRights checks what the status says about the user and the mounts of a container.
func TestReportedRights(t *testing.T) {
	r, runtime := newHeardRig(t)
	runtime.offers = offerEverything
	runtime.fill = func(s *runtimeapi.ContainerStatus) {
		s.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: 1000, Gid: 3000, SupplementalGroups: []int64{3000, 4000}}}
	}
	r.start()
	ifPossible := corev1.RecursiveReadOnlyIfPossible
	pod := webPod("web")
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
		{Name: "data", MountPath: "/data"}, {Name: "data", MountPath: "/read", ReadOnly: true}, {Name: "data", MountPath: "/all", ReadOnly: true, RecursiveReadOnly: &ifPossible},
	}
	r.api.create(pod)
	status := r.api.await(t, "web", "running", running).Status.ContainerStatuses[0]
	if u := status.User; u == nil || u.Linux.UID != 1000 || u.Linux.GID != 3000 || len(u.Linux.SupplementalGroups) != 2 {
		t.Errorf("user %+v", u)
	}
	disabled, enabled := corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled
	want := []*corev1.RecursiveReadOnlyMode{nil, &disabled, &enabled}
	if len(status.VolumeMounts) != len(want) {
		t.Fatalf("the container has the volume mounts %+v, want %d", status.VolumeMounts, len(want))
	}
	for i, m := range status.VolumeMounts {
		if m.Name != "data" || m.MountPath != pod.Spec.Containers[0].VolumeMounts[i].MountPath || m.ReadOnly != (i > 0) ||
			(m.RecursiveReadOnly == nil) != (want[i] == nil) || want[i] != nil && *m.RecursiveReadOnly != *want[i] {
			t.Errorf("volume mount %d is %+v, want data at %s with ReadOnly %t and RecursiveReadOnly %v",
				i, &m, pod.Spec.Containers[0].VolumeMounts[i].MountPath, i > 0, []any{nil, disabled, enabled}[i])
		}
	}
}
