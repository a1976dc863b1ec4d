package nodes

import (
	"encoding/json"
	"testing"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
	"github.com/planekit/planekit/kubelet/staticpods"
)

// TestConfiguration checks that /configz shows what a configuration file has set, and the server's settings.
func TestConfiguration(t *testing.T) {
	file, err := kubeletconfig.Decode([]byte(`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1",
		"maxPods":3,"clusterDomain":"example.org","evictionHard":{"pid.available":"1%"},"imageMinimumGCAge":"1h"}`))
	if err != nil {
		t.Fatal(err)
	}
	config := kubelet.Config{CgroupRoot: "/pods"}
	if err := file.Apply(&config); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(configuration(config, "127.0.0.1", 10250, staticpods.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"address":"127.0.0.1","apiVersion":"kubelet.config.k8s.io/v1beta1",` +
		`"authentication":{"anonymous":{"enabled":false},"webhook":{"enabled":false},"x509":{}},"authorization":{"mode":"Webhook"},` +
		`"cgroupRoot":"/pods","cgroupsPerQOS":true,"clusterDomain":"example.org","containerLogMaxFiles":5,"containerLogMaxSize":"10Mi",` +
		`"containerLogMaxWorkers":1,"containerLogMonitorInterval":"10s",` +
		`"cpuCFSQuota":true,"cpuCFSQuotaPeriod":"100ms","cpuManagerPolicy":"none","cpuManagerReconcilePeriod":"10s","crashLoopBackOff":{"maxContainerRestartPeriod":"5m0s"},` +
		`"enableServer":true,"enforceNodeAllocatable":["pods"],"eventBurst":100,"eventRecordQPS":50,"evictionHard":{"pid.available":"1%"},` +
		`"evictionPressureTransitionPeriod":"5m0s","failCgroupV1":false,"failSwapOn":false,"imageGCHighThresholdPercent":85,"imageGCLowThresholdPercent":80,"imageMinimumGCAge":"1h0m0s",` +
		`"kind":"KubeletConfiguration","maxPods":3,"nodeLeaseDurationSeconds":40,"nodeStatusMaxImages":50,"nodeStatusReportFrequency":"5m0s","nodeStatusUpdateFrequency":"10s",` +
		`"podLogsDir":"/var/log/pods","podPidsLimit":-1,"port":10250,"registryBurst":10,"registryPullQPS":0,"resolvConf":"/etc/resolv.conf","serializeImagePulls":true,"syncFrequency":"20s","volumeStatsAggPeriod":"1m0s"}`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
