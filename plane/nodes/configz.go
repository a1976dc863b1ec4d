package nodes

import (
	"cmp"

	"github.com/planekit/planekit/kubelet"
)

// configuration returns the configuration of a kubelet for /configz, as the fields of a
// KubeletConfiguration
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/) that it has.
func configuration(k kubelet.Config, address string, port int32, manifests string) map[string]any {
	c := map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"enableServer": true, "address": address, "port": port,
		"authentication": map[string]any{
			"x509": map[string]any{}, "webhook": map[string]any{"enabled": false}, "anonymous": map[string]any{"enabled": false},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"clusterDomain": cmp.Or(k.ClusterDomain, "cluster.local"),
		"resolvConf":    cmp.Or(k.ResolvConf, "/etc/resolv.conf"),
		"podLogsDir":    cmp.Or(k.LogRoot, "/var/log/pods"),
	}
	for field, value := range map[string]string{"cgroupRoot": k.CgroupRoot, "podCIDR": k.PodCIDR, "staticPodPath": manifests} {
		if value != "" {
			c[field] = value
		}
	}
	if len(k.ClusterDNS) > 0 {
		c["clusterDNS"] = k.ClusterDNS
	}
	if len(k.Taints) > 0 {
		c["registerWithTaints"] = k.Taints
	}
	return c
}
