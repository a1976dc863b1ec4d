package admission

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list returns resources from pairs of name and quantity.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// requesting returns a container with requests.
func requesting(pairs ...string) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: list(pairs...)}}
}

func podOf(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
}

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a", "size": "4"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "full", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: list("cpu", "2", "memory", "1Gi", "ephemeral-storage", "10Gi", "pods", "4",
			"example.com/gpu", "1", "hugepages-2Mi", "0")},
	}
}

func affinity(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

func expression(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
}

const affinityMessage = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"

// TestVerdicts has a pod for each reason, and for what is next to it.
func TestVerdicts(t *testing.T) {
	web := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := podOf(requesting("cpu", "100m"))
		change(pod)
		return pod
	}
	hostPort := func(ip string, port int32, protocol corev1.Protocol) *corev1.Pod {
		return web(func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port, HostIP: ip, Protocol: protocol}}
		})
	}
	sysctl := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		return web(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: name, Value: "1"}}}
			if change != nil {
				change(p)
			}
		})
	}
	profile := func(p corev1.AppArmorProfile, phase corev1.PodPhase) *corev1.Pod {
		return web(func(pod *corev1.Pod) {
			pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: &p}
			pod.Status.Phase = phase
		})
	}
	noExecute := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "bad", Value: "very", Effect: corev1.TaintEffectNoExecute}}
	}
	tolerating := func(tolerations ...corev1.Toleration) *corev1.Pod {
		return web(func(p *corev1.Pod) { p.Spec.Tolerations = tolerations })
	}
	const tainted = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
	noArmor := Host{AppArmor: errors.New("AppArmor is not enabled on the host")}
	four := []*corev1.Pod{podOf(), podOf(), podOf(), podOf()}
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		others []*corev1.Pod
		node   func(*corev1.Node)
		host   Host
		reason string // empty means that the pod is admitted
		want   string
	}{
		{name: "plain", pod: podOf()},
		{name: "cpu", pod: podOf(requesting("cpu", "1500m")), others: []*corev1.Pod{podOf(requesting("cpu", "600m"))},
			reason: "OutOfcpu", want: "Node didn't have enough resource: cpu, requested: 1500, used: 600, capacity: 2000"},
		{name: "cpu to the last", pod: podOf(requesting("cpu", "1400m")), others: []*corev1.Pod{podOf(requesting("cpu", "600m"))}},
		{name: "memory", pod: podOf(requesting("memory", "1Gi")), others: []*corev1.Pod{podOf(requesting("memory", "1"))},
			reason: "OutOfmemory", want: "Node didn't have enough resource: memory, requested: 1073741824, used: 1, capacity: 1073741824"},
		{name: "storage", pod: podOf(requesting("ephemeral-storage", "11Gi")),
			reason: "OutOfephemeral-storage", want: "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"},
		{name: "pods", pod: podOf(), others: four, reason: "OutOfpods", want: "Node didn't have enough resource: pods, requested: 1, used: 4, capacity: 4"},
		{name: "the first of several", pod: podOf(requesting("cpu", "3", "memory", "2Gi")), others: four, reason: "OutOfpods",
			want: "Node didn't have enough resource: pods, requested: 1, used: 4, capacity: 4"},
		{name: "extended", pod: podOf(requesting("example.com/gpu", "2")), reason: "OutOfexample.com/gpu",
			want: "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1"},
		{name: "extended, of another level", pod: podOf(requesting("example.com/license", "2"))},
		{name: "huge pages", pod: podOf(requesting("hugepages-1Gi", "1Gi")), reason: "OutOfhugepages-1Gi",
			want: "Node didn't have enough resource: hugepages-1Gi, requested: 1073741824, used: 0, capacity: 0"},
		{name: "nothing requested on an overcommitted node", pod: podOf(requesting("memory", "1")), others: []*corev1.Pod{podOf(requesting("cpu", "9"))}},
		{name: "a sum that overflows", pod: podOf(requesting("memory", "8Ei"), requesting("memory", "8Ei"), requesting("memory", "8Ei")),
			reason: "OutOfmemory", want: "Node didn't have enough resource: memory, requested: 9223372036854775807, used: 0, capacity: 1073741824"},
		{name: "cpus that overflow", pod: podOf(requesting("cpu", "8E")),
			reason: "OutOfcpu", want: "Node didn't have enough resource: cpu, requested: 9223372036854775807, used: 0, capacity: 2000"},
		{name: "cpus that no int64 holds", pod: podOf(requesting("cpu", "9e30")),
			reason: "OutOfcpu", want: "Node didn't have enough resource: cpu, requested: 9223372036854775807, used: 0, capacity: 2000"},

		{name: "selector", pod: web(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "b"} }), reason: "NodeAffinity", want: affinityMessage},
		{name: "selector that matches", pod: web(func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} })},
		{name: "affinity", pod: web(func(p *corev1.Pod) { p.Spec.Affinity = affinity(expression("zone", corev1.NodeSelectorOpNotIn, "a")) }),
			reason: "NodeAffinity", want: affinityMessage},
		{name: "affinity, one term of two", pod: web(func(p *corev1.Pod) {
			p.Spec.Affinity = affinity(expression("zone", corev1.NodeSelectorOpDoesNotExist), expression("size", corev1.NodeSelectorOpGt, "3"))
		})},
		{name: "affinity to a name", pod: web(func(p *corev1.Pod) {
			p.Spec.Affinity = affinity(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"}}}})
		})},
		{name: "affinity without terms", pod: web(func(p *corev1.Pod) { p.Spec.Affinity = affinity() }), reason: "NodeAffinity", want: affinityMessage},
		{name: "an empty term", pod: web(func(p *corev1.Pod) { p.Spec.Affinity = affinity(corev1.NodeSelectorTerm{}) }), reason: "NodeAffinity", want: affinityMessage},
		{name: "an invalid requirement", pod: web(func(p *corev1.Pod) { p.Spec.Affinity = affinity(expression("size", corev1.NodeSelectorOpLt, "many")) }),
			reason: "NodeAffinity", want: affinityMessage},
		{name: "name", pod: web(func(p *corev1.Pod) { p.Spec.NodeName = "node-2" }), reason: "NodeName",
			want: "Predicate NodeName failed: node(s) didn't match the requested node name"},
		{name: "port", pod: hostPort("127.0.0.1", 80, ""), others: []*corev1.Pod{hostPort("", 80, corev1.ProtocolTCP)}, reason: "NodePorts",
			want: "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"},
		{name: "port of another address", pod: hostPort("127.0.0.1", 80, ""), others: []*corev1.Pod{hostPort("127.0.0.2", 80, "")}},
		{name: "port of another protocol", pod: hostPort("", 80, ""), others: []*corev1.Pod{hostPort("", 80, corev1.ProtocolUDP)}},
		{name: "taint", pod: podOf(), node: noExecute, reason: "TaintToleration", want: tainted},
		{name: "taint of another value", pod: tolerating(corev1.Toleration{Key: "bad", Value: "little"}), node: noExecute, reason: "TaintToleration", want: tainted},
		{name: "taint of another effect", pod: tolerating(corev1.Toleration{Key: "bad", Value: "very", Effect: corev1.TaintEffectNoSchedule}), node: noExecute, reason: "TaintToleration", want: tainted},
		{name: "tolerated", pod: tolerating(corev1.Toleration{Key: "bad", Value: "very"}), node: noExecute},
		{name: "all tolerated", pod: tolerating(corev1.Toleration{Operator: corev1.TolerationOpExists}), node: noExecute},
		{name: "static", pod: web(func(p *corev1.Pod) { p.Annotations = map[string]string{configSource: "file"} }), node: noExecute},

		{name: "label of another system", pod: web(func(p *corev1.Pod) { p.Labels = map[string]string{corev1.LabelOSStable: "windows"} }),
			reason: "PodOSSelectorNodeLabelDoesNotMatch", want: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
		{name: "another system", pod: web(func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }),
			reason: "PodOSNotSupported", want: "Failed to admit pod as the OS field doesn't match node OS"},
		{name: "this system", pod: web(func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Linux} })},
		{name: "strict groups", pod: web(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict)}
		}), reason: "SupplementalGroupsPolicyNotSupported", want: "SupplementalGroupsPolicy=Strict is not supported in this node"},
		{name: "strict groups on a runtime that has them", pod: web(func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict)}
		}), node: func(n *corev1.Node) { n.Status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: new(true)} }},

		{name: "safe sysctl", pod: sysctl("net.ipv4.tcp_syncookies", nil)},
		{name: "safe sysctl with slashes", pod: sysctl("net/ipv4/tcp_syncookies", nil)},
		{name: "sysctl of the host", pod: sysctl("net.ipv4.tcp_syncookies", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			reason: "SysctlForbidden", want: `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`},
		{name: "sysctl of the host's IPC", pod: sysctl("kernel.shm_rmid_forced", func(p *corev1.Pod) { p.Spec.HostIPC = true }),
			reason: "SysctlForbidden", want: `forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host IPC enabled`},
		{name: "unsafe sysctl", pod: sysctl("net.core.somaxconn", nil), reason: "SysctlForbidden", want: `forbidden sysctl: "net.core.somaxconn" not allowlisted`},
		{name: "unsafe sysctl that is allowed", pod: sysctl("net.core.somaxconn", nil), host: Host{AllowedUnsafeSysctls: []string{"net.core.*"}}},
		{name: "unsafe sysctl with another beginning", pod: sysctl("net.corex", nil), host: Host{AllowedUnsafeSysctls: []string{"net.core.*"}},
			reason: "SysctlForbidden", want: `forbidden sysctl: "net.corex" not allowlisted`},
		{name: "safe on a new kernel", pod: sysctl("net.ipv4.tcp_rmem", nil), host: Host{Kernel: "4.15.0-generic"}},
		{name: "not safe on an old kernel", pod: sysctl("net.ipv4.tcp_rmem", nil), host: Host{Kernel: "4.14.99"},
			reason: "SysctlForbidden", want: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`},

		{name: "profile", pod: profile(corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("web")}, corev1.PodPending), host: noArmor,
			reason: "AppArmor", want: "Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		{name: "default profile", pod: profile(corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}, ""), host: noArmor,
			reason: "AppArmor", want: "Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		{name: "profile by annotation", pod: web(func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "c": "localhost/web"}
		}), host: noArmor, reason: "AppArmor", want: "Cannot enforce AppArmor: AppArmor is not enabled on the host"},
		{name: "unconfined", pod: profile(corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}, ""), host: noArmor},
		{name: "profile of a pod that runs", pod: profile(corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}, corev1.PodRunning), host: noArmor},
		{name: "enforced", pod: profile(corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("web")}, "")},
		{name: "nameless", pod: profile(corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new(" ")}, ""),
			reason: "AppArmor", want: "Cannot enforce AppArmor: invalid empty AppArmor profile name"},

		{name: "restart all", pod: web(func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}), reason: "PodFeatureUnsupported", want: "Pod requires node features that are not available: RestartAllContainersOnContainerExits"},
		{name: "restart all on a node that can", pod: web(func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}), node: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{FeatureRestartAll} }},
		{name: "users on the host's network", pod: web(func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostUsers = true, new(false) }),
			node: func(n *corev1.Node) { n.Status.DeclaredFeatures = []string{"UserNamespacesHostNetworkSupport"} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			handlers, err := Handlers(test.host)
			if err != nil {
				t.Fatal(err)
			}
			node := testNode()
			if test.node != nil {
				test.node(node)
			}
			verdict, victims := Decide(Request{Pod: test.pod, Others: test.others, Node: node}, handlers)
			if verdict.Reason != test.reason || verdict.Message != test.want || len(victims) > 0 {
				t.Errorf("%q %q, want %q %q", verdict.Reason, verdict.Message, test.reason, test.want)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	side := func(c corev1.Container) corev1.Container {
		c.RestartPolicy = &always
		return c
	}
	for _, test := range []struct {
		name string
		spec corev1.PodSpec
		cpu  int64
	}{
		{"containers", corev1.PodSpec{Containers: []corev1.Container{requesting("cpu", "1"), requesting("cpu", "500m")}}, 1500},
		{"a large init container", corev1.PodSpec{Containers: []corev1.Container{requesting("cpu", "1")}, InitContainers: []corev1.Container{requesting("cpu", "3")}}, 3000},
		{"a sidecar before an init container", corev1.PodSpec{Containers: []corev1.Container{requesting("cpu", "1")},
			InitContainers: []corev1.Container{side(requesting("cpu", "1")), requesting("cpu", "3")}}, 4000},
		{"a sidecar after an init container", corev1.PodSpec{Containers: []corev1.Container{requesting("cpu", "1")},
			InitContainers: []corev1.Container{requesting("cpu", "3"), side(requesting("cpu", "1"))}}, 3000},
		{"a sidecar beside the containers", corev1.PodSpec{Containers: []corev1.Container{requesting("cpu", "4")},
			InitContainers: []corev1.Container{side(requesting("cpu", "1"))}}, 5000},
		{"the pod as a whole", corev1.PodSpec{Containers: []corev1.Container{requesting("cpu", "4")},
			Resources: &corev1.ResourceRequirements{Requests: list("cpu", "2")}}, 2000},
		{"overhead", corev1.PodSpec{Containers: []corev1.Container{requesting("cpu", "4")}, Overhead: list("cpu", "250m")}, 4250},
	} {
		if got := Requests(&corev1.Pod{Spec: test.spec})[corev1.ResourceCPU]; got != test.cpu {
			t.Errorf("%s: %d, want %d", test.name, got, test.cpu)
		}
	}
}

func TestAllowedSysctls(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"net.core.somaxconn": true, "net.*": true, "net/core/*": true, "kernel.msg*": true, "fs.mqueue.msg_max": true, "kernel.shm*": true,
		"": false, "*": false, "kernel.*": false, "vm.swappiness": false, "net.*.x": false, "Net.core": false, "net.core.*x": false, "kernel.shmx": false,
	} {
		if _, err := Handlers(Host{AllowedUnsafeSysctls: []string{pattern}}); (err == nil) != ok {
			t.Errorf("Handlers with AllowedUnsafeSysctls %q = %v, want it allowed %t", pattern, err, ok)
		}
	}
}

// FuzzSysctls: whatever the names, the handler decides, and it admits no sysctl that the kernel has
// for the whole machine.
func FuzzSysctls(f *testing.F) {
	f.Add("6.1.0-13-amd64", "net.core.*", "net.core.somaxconn")
	f.Add("4", "kernel/shm*", "kernel/shm")
	f.Add("x.y", "", "vm.swappiness")
	f.Fuzz(func(t *testing.T, kernel, pattern, name string) {
		handlers, err := Handlers(Host{Kernel: kernel, AllowedUnsafeSysctls: []string{pattern}})
		if err != nil {
			return
		}
		pod := podOf()
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: name}}}
		v, _ := Decide(Request{Pod: pod, Node: testNode()}, handlers)
		if v.Admits() && namespaceOf(dotted(name)) == "" && dotted(name) != "kernel.shm" && dotted(name) != "kernel.msg" &&
			!hasPrefix(dotted(name), "kernel.shm", "kernel.msg", "kernel.sem") {
			t.Errorf("%q allows %q", pattern, name)
		}
	})
}

func hasPrefix(s string, prefixes ...string) bool {
	for _, p := range prefixes {
		if len(s) >= len(p) && s[:len(p)] == p {
			return true
		}
	}
	return false
}
