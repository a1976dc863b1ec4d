package nodes

import (
	"maps"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
)

// configuration returns the configuration of a kubelet for /configz, as the fields of a
// KubeletConfiguration
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/) that it has.
func configuration(k kubelet.Config, address string, port int32, manifests string) map[string]any {
	c := kubeletconfig.Describe(&k)
	maps.Copy(c, map[string]any{
		"enableServer": true, "address": address, "port": port,
		"authentication": map[string]any{
			"x509": map[string]any{}, "webhook": map[string]any{"enabled": false}, "anonymous": map[string]any{"enabled": false},
		},
		"authorization": map[string]any{"mode": "Webhook"},
	})
	if manifests != "" {
		c["staticPodPath"] = manifests
	}
	return c
}
