package podsecurity

import (
	"testing"

	"github.com/planekit/planekit/plane/planetest"
	"k8s.io/client-go/rest"
	stocktest "k8s.io/pod-security-admission/test"
)

// TestCluster runs the library's own tests against a control plane: all its pods, and Deployments of them, in namespaces
// of each level and version.
func TestCluster(t *testing.T) {
	p := planetest.Start(t, planetest.WithoutNetwork())
	stocktest.Run(t, stocktest.Options{ClientConfig: &rest.Config{
		Host: "http://plane", Transport: p.Server.Transport(p.User()), QPS: -1,
	}})
}
