package kubeletconfig

import (
	"slices"
	"time"
)

// Reasons why nothing acts on fields.
const (
	ofServer     = "the program that runs the node configures the kubelet's server"
	ofClient     = "the program that runs the node gives the kubelet its client and runtime"
	notYet       = "the kubelet does not have it"
	fixed        = "the kubelet has a fixed value"
	ofHost       = "the kubelet does not change the machine's settings"
	noStaticPods = "the program that runs the kubelet chooses its static pods (--pod-manifest-path of examples/cluster)"
)

func of(d time.Duration) duration { return duration{Duration: d} }

// idleRows are the fields without an effect whose values do not restrict pods. Where the kubelet does not
// do what Kubernetes does by default, the standard is the value that fits.
func idleRows() []row {
	return slices.Concat(serverRows(), machineryRows())
}

// serverRows are the fields about servers and clients.
func serverRows() []row {
	text := logging{Format: "text", FlushFrequency: "5s"}
	text.Options.Text.InfoBufferSize, text.Options.JSON.InfoBufferSize = "0", "0"
	return []row{
		idle("rotateCertificates", false, ofServer),
		idle("serverTLSBootstrap", false, ofServer),
		idle("enableContentionProfiling", false, ofServer),
		idle("enableProfilingHandler", true, ofServer),
		idle("enableDebugFlagsHandler", true, ofServer),
		idle("enableSystemLogHandler", true, ofServer),
		idle("enableSystemLogQuery", false, ofServer),
		idle("healthzPort", int32(10248), ofServer),
		idle("healthzBindAddress", "127.0.0.1", ofServer),
		idle("streamingConnectionIdleTimeout", of(4*time.Hour), ofServer),
		idle("showHiddenMetricsForVersion", "", ofServer),
		idle("logging", text, "the program that runs the node has the log"),
		idle("tracing", tracing{}, notYet),
		idle("contentType", "application/vnd.kubernetes.protobuf", ofClient),
		idle("kubeAPIQPS", int32(50), ofClient),
		idle("kubeAPIBurst", int32(100), ofClient),
		idle("runtimeRequestTimeout", of(2*time.Minute), ofClient),
		idle("containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock", ofClient),
		idle("imageServiceEndpoint", "", ofClient),
		idle("registerNode", true, "the kubelet always registers its Node"),
	}
}

// machineryRows are the fields about loops, volumes and the machine.
func machineryRows() []row {
	ids := int64(65536)
	return []row{
		idle("volumePluginDir", "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", notYet),
		idle("enableControllerAttachDetach", true, "nothing attaches volumes"),
		idle("configMapAndSecretChangeDetectionStrategy", "Watch", "objects are read when volumes are refreshed"),
		idle("runOnce", false, notYet),
		idle("featureGates", map[string]bool(nil), "the kubelet has no feature gates"),
		idle("kubeletCgroups", "", ofHost),
		idle("systemCgroups", "", ofHost),
		idle("oomScoreAdj", int32(-999), ofHost),
		idle("makeIPTablesUtilChains", true, ofHost),
		idle("iptablesMasqueradeBit", int32(14), ofHost),
		idle("iptablesDropBit", int32(15), ofHost),
		idle("hairpinMode", "promiscuous-bridge", "network plugins set up the network"),
		idle("cgroupDriver", "cgroupfs", "the kubelet has the driver cgroupfs"),
		idle("memorySwap", memorySwap{}, "containers get no swap"),
		idle("kernelMemcgNotification", false, notYet),
		idle("memoryThrottlingFactor", float64(0.9), notYet),
		idle("memoryReservationPolicy", "None", notYet),
		idle("qosReserved", map[string]string(nil), notYet),
		idle("reservedMemory", []memoryReservation(nil), notYet),
		idle("topologyManagerScope", "container", notYet),
		idle("topologyManagerPolicyOptions", map[string]string(nil), notYet),
		idle("userNamespaces", userNamespaces{IDsPerPod: &ids}, fixed),
		idle("localStorageCapacityIsolation", true, fixed),
	}
}

// refusedRows are the fields without an effect that restrict pods, or promise them something.
func refusedRows() []row {
	return []row{
		refuses("memoryManagerPolicy", "None", notYet),
		refuses("topologyManagerPolicy", "none", notYet),
		refuses("imagePullCredentialsVerificationPolicy", "NeverVerifyPreloadedImages", notYet),
		refuses("preloadedImagesVerificationAllowlist", []string(nil), notYet),
	}
}
