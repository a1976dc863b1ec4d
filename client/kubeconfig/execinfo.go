package kubeconfig

import (
	"encoding/json"
	"fmt"
)

// execExtension is the name of the cluster extension that is passed to plugins.
const execExtension = "client.authentication.k8s.io/exec"

// execInfo is the input of a plugin.
type execInfo struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Spec       execSpec `json:"spec"`
}

type execSpec struct {
	Cluster     *execCluster `json:"cluster,omitempty"`
	Interactive bool         `json:"interactive"`
}

// execCluster describes the cluster to a plugin: how to reach it, and the extension for plugins in
// the kubeconfig.
type execCluster struct {
	Server                   string          `json:"server"`
	TLSServerName            string          `json:"tls-server-name,omitempty"`
	InsecureSkipTLSVerify    bool            `json:"insecure-skip-tls-verify,omitempty"`
	CertificateAuthorityData []byte          `json:"certificate-authority-data,omitempty"`
	ProxyURL                 string          `json:"proxy-url,omitempty"`
	Config                   json.RawMessage `json:"config,omitempty"`
}

// info returns the ExecCredential for the plugin. It contains the cluster only if the kubeconfig
// says so.
func (c *execConfig) info(at *Cluster) (string, error) {
	info := execInfo{Kind: "ExecCredential", APIVersion: c.APIVersion}
	if c.ProvideClusterInfo {
		authority, err := dataOr(at.CertificateAuthorityData, at.CertificateAuthority)
		if err != nil {
			return "", fmt.Errorf("certificate-authority: %w", err)
		}
		info.Spec.Cluster = &execCluster{
			Server: at.Server, TLSServerName: at.TLSServerName, InsecureSkipTLSVerify: at.InsecureSkipTLSVerify,
			CertificateAuthorityData: authority, ProxyURL: at.ProxyURL,
		}
		for _, e := range at.Extensions {
			if e.Name == execExtension {
				info.Spec.Cluster.Config = e.Extension
				break
			}
		}
	}
	data, err := json.Marshal(info)
	return string(data), err
}
