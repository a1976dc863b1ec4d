package kubelet_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// containerdPods checks in real containers what pods ask of the kernel.
func containerdPods(t *testing.T, r *rig) {
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *rig){
			"memory":    containerdOutOfMemory,
			"quota":     containerdQuota,
			"processes": containerdProcesses,
			"names":     containerdNames,
			"sysctls":   containerdSysctls,
			"seccomp":   containerdSeccomp,
			"procMount": containerdProcMount,
			"messages":  containerdMessages,
			"deadline":  containerdDeadline,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, r)
			})
		}
	})
}

// ended returns a condition for await: the only container of a pod has ended, with a code and a reason.
func ended(code int32, reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		e := firstStatus(pod).State.Terminated
		return e != nil && e.ExitCode == code && e.Reason == reason
	}
}

func containerdOutOfMemory(t *testing.T, r *rig) {
	pod := actorPod("eater", "eat")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("24Mi")}
	r.api.create(pod)
	r.api.await(t, "eater", "killed", ended(137, "OOMKilled"))
	r.api.await(t, "eater", "failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	r.end(t, "eater")
}

// containerdQuota: the kernel holds back a container that wants more CPU than its limit.
func containerdQuota(t *testing.T, r *rig) {
	if _, err := os.Stat("/sys/fs/cgroup/cpu"); err != nil {
		t.Skip("this reads the files of cgroup version 1")
	}
	pod := actorPod("spinner", "spin")
	pod.Spec.Containers[0].Resources = requirements("50m", "32Mi", "50m", "32Mi")
	created := r.api.create(pod)
	in := r.inside(t, r.api.await(t, "spinner", "running", running), "web")
	path := filepath.Join("/sys/fs/cgroup/cpu", r.config.CgroupRoot, "pod"+string(created.UID), in.id, "cpu.stat")
	eventually(t, "the container was held back", func() bool {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(text), "nr_throttled 0\n")
	})
	r.end(t, "spinner")
}

// containerdProcesses: containers see each other's processes if their pod or an ephemeral container asks
// for it.
func containerdProcesses(t *testing.T, r *rig) {
	for name, shared := range map[string]bool{"shares": true, "apart": false} {
		pod := actorPod(name)
		pod.Spec.ShareProcessNamespace = &shared
		other := *pod.Spec.Containers[0].DeepCopy()
		other.Name = "other"
		pod.Spec.Containers = append(pod.Spec.Containers, other)
		r.api.create(pod)
	}
	for name, shared := range map[string]bool{"shares": true, "apart": false} {
		up := r.api.await(t, name, "running", running)
		one, two := r.inside(t, up, "web").namespace(t, "pid"), r.inside(t, up, "other").namespace(t, "pid")
		if own, err := os.Readlink("/proc/self/ns/pid"); err != nil || (one == two) != shared || one == own {
			t.Errorf("%s: the namespaces are %s and %s, that of the host %s", name, one, two, own)
		}
	}
	r.api.change("apart", func(pod *corev1.Pod) {
		c := corev1.EphemeralContainerCommon(*pod.Spec.Containers[0].DeepCopy())
		c.Name = "look"
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: c, TargetContainerName: "other"}}
	})
	up := r.api.await(t, "apart", "looked into", func(pod *corev1.Pod) bool {
		s := pod.Status.EphemeralContainerStatuses
		return len(s) == 1 && s[0].State.Running != nil
	})
	look := r.inside(t, up, "look").namespace(t, "pid")
	if look != r.inside(t, up, "other").namespace(t, "pid") || look == r.inside(t, up, "web").namespace(t, "pid") {
		t.Error("the ephemeral container does not see the processes of its target alone")
	}
	r.end(t, "shares", "apart")
}

// containerdNames: a pod with a network of its own has its name in the kernel, and aliases in its
// hosts file.
func containerdNames(t *testing.T, r *rig) {
	pod := actorPod("names")
	pod.Spec.HostNetwork = false
	pod.Spec.Hostname, pod.Spec.Subdomain, pod.Spec.SetHostnameAsFQDN = "one", "sub", new(true)
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"seven", "siete"}}}
	r.api.create(pod)
	short := actorPod("short")
	short.Spec.HostNetwork = false
	r.api.create(short)
	up := r.api.await(t, "names", "running", running)
	in := r.inside(t, up, "web")
	if got := r.does(t, in, "read", "/proc/sys/kernel/hostname"); got != "one.sub.default.svc.cluster.local\n" {
		t.Errorf("the name is %q", got)
	}
	hosts := r.does(t, in, "read", "/etc/hosts")
	for _, line := range []string{up.Status.PodIP + "\tone.sub.default.svc.cluster.local\tone\n", "192.0.2.7\tseven\tsiete\n"} {
		if !strings.Contains(hosts, line) {
			t.Errorf("the hosts are %q, without %q", hosts, line)
		}
	}
	in = r.inside(t, r.api.await(t, "short", "running", running), "web")
	if got := r.does(t, in, "read", "/proc/sys/kernel/hostname"); got != "short\n" {
		t.Errorf("the name is %q", got)
	}
	long := actorPod("long")
	long.Spec.HostNetwork = false
	long.Spec.Hostname, long.Spec.Subdomain, long.Spec.SetHostnameAsFQDN = strings.Repeat("a", 60), "sub", new(true)
	r.api.create(long)
	whole := long.Spec.Hostname + ".sub.default.svc.cluster.local"
	r.api.awaitEvent(t, "long", "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long (64 characters is the max, %d characters requested)", whole, len(whole)))
	r.end(t, "names", "short", "long")
}

func containerdSysctls(t *testing.T, r *rig) {
	pod := actorPod("sysctls")
	pod.Spec.HostNetwork = false
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
		{Name: "kernel.shm_rmid_forced", Value: "1"}, {Name: "net.ipv4.ip_unprivileged_port_start", Value: "8080"},
	}}
	r.api.create(pod)
	unsafe := actorPod("unsafe")
	unsafe.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}}
	r.api.create(unsafe)
	in := r.inside(t, r.api.await(t, "sysctls", "running", running), "web")
	for path, want := range map[string]string{"/proc/sys/kernel/shm_rmid_forced": "1\n", "/proc/sys/net/ipv4/ip_unprivileged_port_start": "8080\n"} {
		if got := r.does(t, in, "read", path); got != want {
			t.Errorf("%s is %q", path, got)
		}
	}
	r.api.await(t, "unsafe", "refused", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "SysctlForbidden" && pod.Status.Message == `Pod was rejected: forbidden sysctl: "kernel.msgmax" not allowlisted`
	})
	r.end(t, "sysctls", "unsafe")
}

// containerdSeccomp: profiles forbid system calls.
func containerdSeccomp(t *testing.T, r *rig) {
	directory := filepath.Join(r.config.Root, "seccomp")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(directory)
	const profile = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}`
	if err := os.WriteFile(filepath.Join(directory, "flat.json"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	profiles := map[string]*corev1.SeccompProfile{
		"unconfined": {Type: corev1.SeccompProfileTypeUnconfined},
		"default":    {Type: corev1.SeccompProfileTypeRuntimeDefault},
		"flat":       {Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("flat.json")},
		"lost":       {Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("lost.json")},
	}
	for name, p := range profiles {
		pod := actorPod(name)
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{SeccompProfile: p}
		r.api.create(pod)
	}
	in := map[string]container{}
	for _, name := range []string{"unconfined", "default", "flat"} {
		in[name] = r.inside(t, r.api.await(t, name, "running", running), "web")
	}
	const refused = "operation not permitted"
	if output, ok := r.act(t, in["unconfined"], "keyring", "-"); ok {
		r.refuses(t, in["default"], "keyring", "-", refused)
	} else {
		t.Logf("this machine has no keyrings: %s", output)
	}
	r.does(t, in["unconfined"], "mkdir", "/made")
	r.does(t, in["default"], "mkdir", "/made")
	r.refuses(t, in["flat"], "mkdir", "/made", refused)
	r.api.await(t, "lost", "refused", waits("CreateContainerError", "lost.json"))
	r.end(t, "unconfined", "default", "flat", "lost")
}

// containerdProcMount: the runtime hides parts of /proc unless the container asks for the whole.
func containerdProcMount(t *testing.T, r *rig) {
	whole := corev1.UnmaskedProcMount
	pod := actorPod("masked")
	r.api.create(pod)
	pod = actorPod("unmasked")
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ProcMount: &whole}
	r.api.create(pod)
	for name, hidden := range map[string]bool{"masked": true, "unmasked": false} {
		in := r.inside(t, r.api.await(t, name, "running", running), "web")
		if got := len(in.mountOptions(t, "/proc/interrupts")) > 0; got != hidden {
			t.Errorf("%s: /proc/interrupts is hidden: %v", name, got)
		}
		options := in.mountOptions(t, "/proc/sys")
		if got := len(options) == 1 && strings.HasPrefix(options[0], "ro,"); got != hidden {
			t.Errorf("%s: /proc/sys is mounted with %q", name, options)
		}
	}
	r.end(t, "masked", "unmasked")
}

// containerdMessages: what a container says at its end is in a file of its choice or, after an error,
// in the end of its log.
func containerdMessages(t *testing.T, r *rig) {
	own := actorPod("own", "fail")
	own.Spec.Containers[0].TerminationMessagePath = "/dev/last-words"
	own.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "WORDS", Value: "/dev/last-words"}}
	logged := actorPod("logged", "wail")
	logged.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	silent := actorPod("silent", "wail")
	spoken := actorPod("spoken", "fail")
	spoken.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	for _, pod := range []*corev1.Pod{own, logged, silent, spoken} {
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		r.api.create(pod)
	}
	codes := map[string]int32{"it went wrong": 7, "": 3}
	message := func(name string, code int32) string {
		return r.api.await(t, name, "ended", ended(code, "Error")).Status.ContainerStatuses[0].State.Terminated.Message
	}
	for name, want := range map[string]string{"own": "it went wrong", "spoken": "it went wrong", "silent": ""} {
		if got := message(name, codes[want]); got != want {
			t.Errorf("%s says %q", name, got)
		}
	}
	// The last 80 lines, and of them 2048 bytes.
	if got := message("logged", 3); len(got) != 2048 || !strings.HasSuffix(got, "\nline 99 of what went wrong\n") {
		t.Errorf("the log ends with %d bytes: %q", len(got), got)
	}
	r.end(t, "own", "logged", "silent", "spoken")
}

// containerdDeadline: a pod ends at its deadline, with its processes.
func containerdDeadline(t *testing.T, r *rig) {
	pod := actorPod("deadline")
	pod.Spec.ActiveDeadlineSeconds = new(int64(2))
	created := r.api.create(pod)
	r.api.await(t, "deadline", "failed", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "DeadlineExceeded" && pod.Status.Message == "Pod was active on the node longer than the specified deadline"
	})
	eventually(t, "the processes have ended", func() bool { return len(pids(t, r, string(created.UID))) == 0 })
	r.end(t, "deadline")
}

// pids are the processes of a pod's cgroup below CgroupRoot.
func pids(t *testing.T, r *rig, in string) []int {
	t.Helper()
	var list []int
	err := filepath.WalkDir("/sys/fs/cgroup/memory"+r.config.CgroupRoot, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // of a pod that has just ended
		}
		if err != nil || filepath.Base(path) != "cgroup.procs" || !strings.Contains(path, in) {
			return err
		}
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			return nil
		}
		for _, field := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(field)
			list = append(list, pid)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
