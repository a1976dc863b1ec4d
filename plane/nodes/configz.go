package nodes

import (
	"maps"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/kubeletconfig"
	"github.com/planekit/planekit/kubelet/staticpods"
)

// configuration returns the configuration of a kubelet for /configz, as the fields of a
// KubeletConfiguration
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/) that it has.
func configuration(k kubelet.Config, address string, port int32, static staticpods.Config) map[string]any {
	c := kubeletconfig.Describe(&k)
	maps.Copy(c, map[string]any{
		"enableServer": true, "address": address, "port": port,
		"authentication": map[string]any{
			"x509": map[string]any{}, "webhook": map[string]any{"enabled": false}, "anonymous": map[string]any{"enabled": false},
		},
		"authorization": map[string]any{"mode": "Webhook"},
	})
	if static.Path != "" {
		c["staticPodPath"] = static.Path
	}
	if static.URL != "" {
		c["staticPodURL"] = static.URL
	}
	return c
}
