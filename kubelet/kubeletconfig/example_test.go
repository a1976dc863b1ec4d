package kubeletconfig_test

import (
	"fmt"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
)

func Example() {
	file, err := kubeletconfig.Decode([]byte(`
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDomain: example.org
cgroupDriver: systemd
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	config := kubelet.Config{NodeName: "node-1"}
	if err := file.Apply(&config); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.ClusterDomain, file.Warnings())
	// Output: example.org [cgroupDriver has no effect: the kubelet has the driver cgroupfs]
}
