package kubeletconfig

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/shutdown"
	corev1 "k8s.io/api/core/v1"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func mustDecode(t *testing.T, text string) *File {
	t.Helper()
	f, err := Decode([]byte(text))
	if err != nil {
		t.Fatalf("Decode(%q): %v", text, err)
	}
	return f
}

// TestTable checks that the table has exactly the fields of Kubernetes v1.36, and their defaults where
// nothing acts on them.
func TestTable(t *testing.T) {
	data, err := os.ReadFile("testdata/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(data))
	var got []string
	for _, r := range rows() {
		got = append(got, r.name)
		if (r.apply == nil) != (r.idle != "") {
			t.Errorf("%s must either have an effect or say why not", r.name)
		}
		if r.idle != "" && r.standard != nil && reflect.TypeOf(r.standard) != r.kind {
			t.Errorf("%s: the default has the wrong type", r.name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the table has\n%v\nwant\n%v", got, want)
	}
}

// TestDefaults checks that a file with all of Kubernetes' defaults is accepted and changes nothing, and names
// the defaults that the kubelet does not have.
func TestDefaults(t *testing.T) {
	data, err := os.ReadFile("testdata/defaults.json")
	if err != nil {
		t.Fatal(err)
	}
	f := mustDecode(t, string(data))
	var k kubelet.Config
	if err := f.Apply(&k); err != nil {
		t.Error(err)
	}
	if (k.PullRate != kubelet.Rate{PerSecond: 5, Burst: 10}) {
		t.Errorf("the rate of pulls is %+v", k.PullRate)
	}
	shown, zero := Describe(&k), Describe(&kubelet.Config{})
	if (k.Require != kubelet.Requirements{NoSwap: true, Unified: true}) {
		t.Errorf("required is %+v", k.Require)
	}
	if k.SyncPeriod != time.Minute {
		t.Errorf("pods are synced every %v", k.SyncPeriod)
	}
	// Without a file, pulls have no limit, pods are synced more often, and less is required of the machine.
	for _, name := range []string{"registryPullQPS", "syncFrequency", "failSwapOn", "failCgroupV1"} {
		delete(shown, name)
		delete(zero, name)
	}
	if !reflect.DeepEqual(shown, zero) {
		t.Errorf("a file of defaults changes\n%v\nto\n%v", zero, shown)
	}
	var defaults map[string]any
	if err := json.Unmarshal(data, &defaults); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(zero)
	if err != nil {
		t.Fatal(err)
	}
	var described map[string]any
	if err := json.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	for name, value := range described {
		if want, ok := defaults[name]; ok && !reflect.DeepEqual(value, want) {
			t.Errorf("the default of %s is %v, not %v", name, value, want)
		}
	}
	if warnings := f.Warnings(); len(warnings) != 0 {
		t.Errorf("warnings: %q", warnings)
	}
}

// full has a value for each field that has an effect.
const full = head + `
podCIDR: 10.9.0.0/24
clusterDNS: [10.96.0.10]
clusterDomain: example.org
resolvConf: /etc/resolv2.conf
cgroupRoot: /pods
podLogsDir: /logs
registerWithTaints: [{key: a, value: b, effect: NoSchedule}]
maxPods: 7
nodeStatusUpdateFrequency: 5s
nodeLeaseDurationSeconds: 20
evictionHard: {memory.available: 200Mi, nodefs.available: 5%}
evictionSoft: {memory.available: 400Mi}
evictionSoftGracePeriod: {memory.available: 1m30s}
evictionMinimumReclaim: {nodefs.available: 1Gi}
evictionPressureTransitionPeriod: 1m
evictionMaxPodGracePeriod: 30
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 60
imageMinimumGCAge: 1m
imageMaximumGCAge: 2h
containerLogMaxSize: 1Mi
containerLogMaxFiles: 3
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
cpuManagerReconcilePeriod: 3s
reservedSystemCPUs: 0-1
kubeReserved: {cpu: 500m, memory: 1Gi, pid: "100"}
systemReserved: {cpu: 700m, pid: 1k}
cgroupsPerQOS: true
cpuCFSQuota: false
cpuCFSQuotaPeriod: 5ms
syncFrequency: 30s
podPidsLimit: 1000
enforceNodeAllocatable: [pods, system-reserved, kube-reserved-compressible]
systemReservedCgroup: system
kubeReservedCgroup: /kube
singleProcessOOMKill: true
serializeImagePulls: false
maxParallelImagePulls: 4
podsPerCore: 20
nodeStatusMaxImages: 0
registryPullQPS: 7
registryBurst: 14
eventRecordQPS: 3
eventBurst: 6
containerLogMaxWorkers: 2
containerLogMonitorInterval: 4s
crashLoopBackOff: {maxContainerRestartPeriod: 20s}
seccompDefault: true
providerID: cloud://1
volumeStatsAggPeriod: 2m
failSwapOn: true
failCgroupV1: true
protectKernelDefaults: true
allowedUnsafeSysctls: [net.core.somaxconn]
shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 20}, {priority: 1000, shutdownGracePeriodSeconds: 10}]
`

func TestApply(t *testing.T) {
	f := mustDecode(t, full)
	k := kubelet.Config{NodeName: "n"}
	if err := f.Apply(&k); err != nil {
		t.Fatal(err)
	}
	pods := k.Capacity[corev1.ResourcePods]
	for _, test := range []struct{ got, want any }{
		{k.NodeName, "n"}, {k.PodCIDR, "10.9.0.0/24"}, {k.ClusterDNS, []string{"10.96.0.10"}}, {k.ClusterDomain, "example.org"},
		{k.ResolvConf, "/etc/resolv2.conf"}, {k.CgroupRoot, "/pods"}, {k.LogRoot, "/logs"},
		{k.Taints, []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}}}, {pods.Value(), int64(7)},
		{k.Heartbeat, kubelet.Heartbeat{StatusPeriod: 5 * time.Second, ReportPeriod: 5 * time.Second, LeaseSeconds: 20}},
		{k.Eviction.Transition, time.Minute}, {k.Eviction.MaxGrace, int64(30)}, {len(k.Eviction.Thresholds), 3},
		{k.ImageGC, kubelet.ImageGC{High: 70, Low: 60, MinAge: time.Minute, MaxAge: 2 * time.Hour}},
		{k.LogMaxSize, int64(1 << 20)}, {k.LogMaxFiles, 3},
		{quantities(k.KubeReserved), map[string]string{"cpu": "500m", "memory": "1Gi", "pid": "100"}},
		{quantities(k.SystemReserved), map[string]string{"cpu": "700m", "pid": "1k"}},
		{k.Cgroups, kubelet.Cgroups{
			PerQOS: new(true), PodPids: 1000, Enforce: []string{"pods", "system-reserved", "kube-reserved-compressible"},
			SystemReserved: "/system", KubeReserved: "/kube", SingleProcessOOMKill: new(true),
			NoCPUQuota: true, CPUQuotaPeriod: 5 * time.Millisecond,
		}},
		{k.SyncPeriod, 30 * time.Second}, {k.PodsPerCore, 20}, {*k.NodeImages, 0}, {k.PullRate, kubelet.Rate{PerSecond: 7, Burst: 14}}, {k.EventRate, kubelet.Rate{PerSecond: 3, Burst: 6}},
		{k.LogWorkers, 2}, {k.LogInterval, 4 * time.Second}, {k.MaxRestartBackoff, 20 * time.Second}, {k.SeccompDefault, true}, {k.ProviderID, "cloud://1"}, {k.VolumeStatsPeriod, 2 * time.Minute},
		{k.Require, kubelet.Requirements{NoSwap: true, Unified: true, KernelDefaults: true}},
		{*k.SerializeImagePulls, false}, {k.MaxParallelPulls, 4}, {k.AllowedUnsafeSysctls, []string{"net.core.somaxconn"}},
		{k.Shutdown.ByPodPriority, []shutdown.Period{{Priority: 0, Grace: 20 * time.Second}, {Priority: 1000, Grace: 10 * time.Second}}},
		{k.CPUManager, kubelet.CPUManager{
			Policy: "static", Options: map[string]string{"full-pcpus-only": "true"}, Reserved: "0-1", ReconcilePeriod: 3 * time.Second,
		}},
	} {
		if !reflect.DeepEqual(test.got, test.want) {
			t.Errorf("got %v, want %v", test.got, test.want)
		}
	}
	if len(f.Warnings()) != 0 || !f.Has("maxPods") || f.Has("address") {
		t.Errorf("Warnings() = %v, Has(\"maxPods\") = %v, Has(\"address\") = %v, want none, true, false",
			f.Warnings(), f.Has("maxPods"), f.Has("address"))
	}
	// What is shown is what was in the file.
	text, err := json.Marshal(Describe(&k))
	if err != nil {
		t.Fatal(err)
	}
	again := mustDecode(t, string(text))
	var k2 kubelet.Config
	if err := again.Apply(&k2); err != nil {
		t.Fatal(err)
	}
	k.NodeName = "" // it is not shown
	if !reflect.DeepEqual(k, k2) {
		t.Errorf("%s is\n%v, not\n%v", text, k2, k)
	}
}

// TestKeeps checks that fields that are not in the file keep their values.
func TestKeeps(t *testing.T) {
	capacity := corev1.ResourceList{corev1.ResourceCPU: {}}
	k := kubelet.Config{ClusterDomain: "x", ImageGC: kubelet.ImageGC{High: 100}, Capacity: capacity}
	if err := mustDecode(t, head+"maxPods: 5\nimageGCLowThresholdPercent: 50\n").Apply(&k); err != nil {
		t.Fatal(err)
	}
	if k.ClusterDomain != "x" || k.ImageGC.High != 100 || k.ImageGC.Low != 50 || k.Eviction.Thresholds != nil || len(capacity) != 1 || len(k.Capacity) != 2 {
		t.Errorf("Apply gives ClusterDomain %q, ImageGC %+v, thresholds %v, %d resources (%d before); want x, High 100, Low 50, nil, 2 (1)",
			k.ClusterDomain, k.ImageGC, k.Eviction.Thresholds, len(k.Capacity), len(capacity))
	}
	if err := mustDecode(t, head+"evictionHard: {}\n").Apply(&k); err != nil || k.Eviction.Thresholds == nil || len(k.Eviction.Thresholds) != 0 {
		t.Errorf("no thresholds are %#v (%v)", k.Eviction.Thresholds, err)
	}
	if err := mustDecode(t, head+"evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true\n").Apply(&k); err != nil || len(k.Eviction.Thresholds) != 5 {
		t.Errorf("merged thresholds are %#v (%v)", k.Eviction.Thresholds, err)
	}
}

// TestCgroupsOff: a file that leaves out the cgroups enforces nothing.
func TestCgroupsOff(t *testing.T) {
	for _, list := range []string{"[]", "[none]"} {
		var k kubelet.Config
		err := mustDecode(t, head+"cgroupsPerQOS: false\nenforceNodeAllocatable: "+list+"\npodPidsLimit: -1\n").Apply(&k)
		if err != nil || k.Cgroups.PerQOS == nil || *k.Cgroups.PerQOS || k.Cgroups.PodPids != 0 {
			t.Errorf("%s: Apply: %v, Cgroups %+v; want PerQOS false and no limit of PIDs", list, err, k.Cgroups)
		}
	}
}

// TestRates: one field of a rate is completed by Kubernetes' default of the other, and 0 is no limit.
func TestRates(t *testing.T) {
	for text, want := range map[string][2]kubelet.Rate{
		"":                   {},
		"registryPullQPS: 7": {{PerSecond: 7, Burst: 10}},
		"registryPullQPS: 0": {{Burst: 10}},
		"registryBurst: 4":   {{PerSecond: 5, Burst: 4}},
		"registryBurst: 0":   {{PerSecond: 5}},
		"eventRecordQPS: 0":  {{}, {PerSecond: -1}},
		"eventRecordQPS: 7":  {{}, {PerSecond: 7}},
		"eventBurst: 7":      {{}, {Burst: 7}},
	} {
		var k kubelet.Config
		if err := mustDecode(t, head+text).Apply(&k); err != nil || k.PullRate != want[0] || k.EventRate != want[1] {
			t.Errorf("Apply of %q sets pulls %+v, events %+v, error %v; want %+v, %+v",
				text, k.PullRate, k.EventRate, err, want[0], want[1])
		}
	}
	var k kubelet.Config
	if err := mustDecode(t, head+"eventRecordQPS: 0\nnodeStatusMaxImages: -1").Apply(&k); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(Describe(&k)); err != nil || !strings.Contains(string(text), `"eventRecordQPS":0`) || !strings.Contains(string(text), `"nodeStatusMaxImages":-1`) {
		t.Errorf("Describe gives %s, %v, want \"eventRecordQPS\":0 and \"nodeStatusMaxImages\":-1", text, err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "the file is empty",
		"# none\n":                      "the file is empty",
		"kind: Pod\napiVersion: v1\n":   `no KubeletConfiguration of kubelet.config.k8s.io/v1beta1: apiVersion "v1", kind "Pod"`,
		"[]":                            "cannot unmarshal array",
		head + "---\n" + head:           "the file has more than one document",
		head + "maxPod: 1":              `unknown field "maxPod"`,
		head + "maxpods: 1":             `unknown field "maxpods"`,
		head + "maxPods: 1\nmaxPods: 2": `key "maxPods" already set in map`,
		head + "authentication: {anonymous: {enable: true}}":         `unknown field "authentication.anonymous.enable"`,
		head + "registerWithTaints: [{key: a, effects: NoSchedule}]": `unknown field "registerWithTaints[0].effects"`,
		head + "maxPods: many":                                 "maxPods of type int32",
		head + "maxPods: -1":                                   "invalid configuration: maxPods (--max-pods) -1 must not be a negative number",
		head + "imageGCHighThresholdPercent: 101":              "imageGCHighThresholdPercent (--image-gc-high-threshold) 101 must be between 0 and 100, inclusive",
		head + "imageGCLowThresholdPercent: 0":                 "imageGCLowThresholdPercent (--image-gc-low-threshold) 0 is not supported",
		head + "imageGCLowThresholdPercent: 90":                "imageGCLowThresholdPercent (--image-gc-low-threshold) 90 must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 85",
		head + "imageMaximumGCAge: 1s":                         "imageMaximumGCAge 1s must be greater than imageMinimumGCAge 2m0s",
		head + "imageMinimumGCAge: -1s":                        "imageMinimumGCAge -1s must not be negative",
		head + "imageMinimumGCAge: soon":                       "invalid duration",
		head + "nodeLeaseDurationSeconds: -1":                  "nodeLeaseDurationSeconds must be greater than 0",
		head + "containerLogMaxFiles: 1":                       "containerLogMaxFiles must be greater than 1",
		head + "containerLogMaxSize: big":                      `containerLogMaxSize "big"`,
		head + "containerLogMaxSize: '0'":                      `containerLogMaxSize "0" must be positive`,
		head + "evictionHard: {memory.free: 1Gi}":              "hard eviction: memory.free: is not a signal",
		head + "evictionSoft: {memory.available: 1Gi}":         "soft eviction: memory.available: has no grace period",
		head + "evictionMaxPodGracePeriod: -1":                 "evictionMaxPodGracePeriod (--eviction-max-pod-grace-period) -1 must not be negative",
		head + "reservedSystemCPUs: 1-0":                       "unable to parse reservedSystemCPUs (--reserved-cpus) 1-0",
		head + "kubeReserved: {gpu: '1'}":                      `kubeReserved: cannot reserve "gpu" resource`,
		head + "systemReserved: {cpu: x}":                      `systemReserved: failed to parse quantity "x" for "cpu" resource`,
		head + "systemReserved: {memory: '-1'}":                `systemReserved: resource quantity for "memory" cannot be negative: -1`,
		head + "registerWithTaints: [{key: a, effect: Never}]": `taint "a" needs a key and one of the effects`,
		head + "registerWithTaints: [{key: a, effect: NoExecute, timeAdded: '2026-01-01T00:00:00Z'}]": "taint.TimeAdded is not nil",
		head + "memoryManagerPolicy: Static\ntopologyManagerPolicy: restricted":                       "memoryManagerPolicy has no effect: the kubelet does not have it\ntopologyManagerPolicy has no effect",
		head + "podsPerCore: -1":                                      "invalid configuration: podsPerCore (--pods-per-core) -1 must not be a negative number",
		head + "nodeStatusMaxImages: -2":                              "nodeStatusMaxImages (--node-status-max-images) -2 must be -1 or greater",
		head + "registryPullQPS: -1":                                  "registryPullQPS (--registry-qps) -1 must not be a negative number",
		head + "registryBurst: -1":                                    "registryBurst (--registry-burst) -1 must not be a negative number",
		head + "eventRecordQPS: -1":                                   "eventRecordQPS (--event-qps) -1 must not be a negative number",
		head + "eventBurst: -1":                                       "eventBurst (--event-burst) -1 must not be a negative number",
		head + "containerLogMaxWorkers: 0":                            "containerLogMaxWorkers must be greater than or equal to 1",
		head + "containerLogMonitorInterval: 2s":                      "containerLogMonitorInterval must be a positive time duration greater than or equal to 3s",
		head + "crashLoopBackOff: {maxContainerRestartPeriod: 500ms}": "CrashLoopBackOff.MaxContainerRestartPeriod (got: 0.5 seconds) must be set between 1s and 300s",
		head + "crashLoopBackOff: {maxContainerRestartPeriod: 301s}":  "CrashLoopBackOff.MaxContainerRestartPeriod (got: 301 seconds) must be set between 1s and 300s",
		head + "cpuCFSQuotaPeriod: 500us":                             "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) 500µs must be between 1ms and 1sec, inclusive",
		head + "cpuCFSQuotaPeriod: 2s":                                "cpuCFSQuotaPeriod (--cpu-cfs-quota-period) 2s must be between 1ms and 1sec, inclusive",
		head + "syncFrequency: -1s":                                   "syncFrequency -1s must not be negative",
		head + "readOnlyPort: 65536":                                  "readOnlyPort (--read-only-port) 65536 must be between 0 and 65535, inclusive",
		head + "maxOpenFiles: -1":                                     "maxOpenFiles (--max-open-files) -1 must not be a negative number",
		head + "podPidsLimit: many":                                   "podPidsLimit of type int64",
		head + "systemReserved: {pid: some}":                          `systemReserved: failed to parse quantity "some" for "pid" resource`,
		head + "cgroupsPerQOS: false":                                 `invalid configuration: cgroupsPerQOS (--cgroups-per-qos) must be set to true when "pods" contained in enforceNodeAllocatable (--enforce-node-allocatable)`,
		head + "cgroupsPerQOS: false\nenforceNodeAllocatable: [kube-reserved]\nkubeReservedCgroup: /k": `must be set to true when "kube-reserved" contained in`,
		head + "enforceNodeAllocatable: [pods, pods]":                                                  `duplicated enforcements "pods"`,
		head + "enforceNodeAllocatable: [none, pods]":                                                  `may not contain additional enforcements when "none" is specified`,
		head + "enforceNodeAllocatable: [all]":                                                         `option "all" specified for enforceNodeAllocatable (--enforce-node-allocatable). Valid options are "pods", "system-reserved",`,
		head + "enforceNodeAllocatable: [system-reserved]":                                             `systemReservedCgroup (--system-reserved-cgroup) must be specified when "system-reserved" or "system-reserved-compressible" included`,
		head + "enforceNodeAllocatable: [kube-reserved-compressible]":                                  `kubeReservedCgroup (--kube-reserved-cgroup) must be specified when`,
		head + "enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]":                   `both "kube-reserved" and "kube-reserved-compressible" cannot be specified together`,
		strings.Repeat("#", maxSize+1):                                                                 "bytes, more than",
	} {
		if _, err := Decode([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: error %v, want %q", text, err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	f := mustDecode(t, "---\n"+head+`
authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}, webhook: {enabled: true, cacheTTL: 0s}, anonymous: {enabled: false}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s}}
cgroupDriver: systemd
rotateCertificates: true
httpCheckFrequency: 0s
memorySwap: {}
featureGates: {}
enableServer: false
`)
	want := []string{
		"enableServer has no effect: " + ofServer,
		"authentication has no effect: " + ofServer,
		"authorization has no effect: " + ofServer,
		"rotateCertificates has no effect: " + ofServer,
		"cgroupDriver has no effect: the kubelet has the driver cgroupfs",
	}
	if got := f.Warnings(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRestrictionsAreRefused checks that each field of refusedRows is refused with any other value.
func TestRestrictionsAreRefused(t *testing.T) {
	values := map[string]string{
		"memoryManagerPolicy":   "Static",
		"topologyManagerPolicy": "restricted", "imagePullCredentialsVerificationPolicy": "AlwaysVerify", "preloadedImagesVerificationAllowlist": "[a]",
	}
	for _, r := range refusedRows() {
		if _, err := Decode([]byte(head + r.name + ": " + values[r.name])); err == nil || !strings.HasPrefix(err.Error(), r.name+" has no effect") {
			t.Errorf("Decode with %s: error %v, want one that it has no effect", r.name, err)
		}
		delete(values, r.name)
	}
	if len(values) > 0 {
		t.Errorf("no rows for %v", slices.Collect(maps.Keys(values)))
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(head + "a: &a [*a]\n"))
	f.Add([]byte(`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","logging":{"flushFrequency":5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Decode(data)
		if err != nil {
			return
		}
		// Whatever was accepted can be applied, and be shown.
		var k kubelet.Config
		if err := file.Apply(&k); err != nil {
			t.Errorf("Apply of %q: %v", data, err)
		}
		if _, err := json.Marshal(Describe(&k)); err != nil {
			t.Errorf("Describe after Apply of %q: %v", data, err)
		}
	})
}
