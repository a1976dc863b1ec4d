package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// runcClasses has a class of a handler that containerd has, and one of a handler that it lacks.
func runcClasses() localcache.Getter[*nodev1.RuntimeClass] {
	classes := localcache.NewMap[*nodev1.RuntimeClass]()
	for name, handler := range map[string]string{"usual": "runc", "sandboxed": "kata"} {
		classes.Put(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler})
	}
	return classes
}

// containerdRights runs pods with a runtime class and with security settings, and pods with settings
// that this containerd does not support.
func containerdRights(t *testing.T, r *rig) {
	profiles := filepath.Join(r.config.Root, "seccomp")
	if err := os.MkdirAll(profiles, 0o755); err != nil {
		t.Fatal(err)
	}
	const profile = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["swapoff"],"action":"SCMP_ACT_ERRNO"}]}`
	if err := os.WriteFile(filepath.Join(profiles, "noswap.json"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	usual, sandboxed, file := "usual", "sandboxed", "noswap.json"
	pod := actorPod("rights")
	pod.Spec.RuntimeClassName = &usual
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		SELinuxOptions:  &corev1.SELinuxOptions{Level: "s0:c1,c2"},
		AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
		SeccompProfile:  &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &file},
	}
	created := r.api.create(pod)
	up := r.api.await(t, "rights", "running", running)
	for _, pid := range pids(t, r, "pod"+string(created.UID)+"/"+containerID(up)) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(text), "Seccomp:\t2\n") {
			t.Errorf("the process has no filter: %s %v", text, err)
		}
	}

	refused := func(name, message string, change func(*corev1.PodSpec)) {
		pod := actorPod(name)
		change(&pod.Spec)
		r.api.create(pod)
		r.api.awaitEvent(t, name, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+message)
	}
	refused("class", `rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "kata" is configured`,
		func(s *corev1.PodSpec) { s.RuntimeClassName = &sandboxed })
	own, strict := false, corev1.SupplementalGroupsPolicyStrict
	refused("users", "can't set `spec.hostUsers: false`, runtime does not support user namespaces",
		func(s *corev1.PodSpec) { s.HostNetwork, s.HostUsers = false, &own })
	groups := actorPod("groups")
	groups.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict}
	r.api.create(groups)
	r.api.await(t, "groups", "refused", func(pod *corev1.Pod) bool {
		return pod != nil && pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "SupplementalGroupsPolicyNotSupported"
	})
	for _, name := range []string{"rights", "class", "users", "groups"} {
		r.api.delete(name, 2)
		r.api.await(t, name, "gone", gone)
	}
	if err := os.RemoveAll(profiles); err != nil {
		t.Fatal(err)
	}
}
