package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
)

// asKubeProxy makes the test binary kube-proxy's proxier of one family in the network namespace of its
// thread, for a state that it reads from its standard input.
const asKubeProxy = "PLANEKIT_TEST_KUBE_PROXY"

// A state has the objects that a proxy serves.
type state struct {
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
	// PodRange, ServiceRange and NodeIP describe the network.
	PodRange, ServiceRange, NodeIP string
}

func TestMain(m *testing.M) {
	if os.Getenv(asKubeProxy) == "" {
		os.Exit(m.Run())
	}
	if err := kubeProxy(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// kubeProxy serves states until its input ends, and answers each with a line.
func kubeProxy() error {
	input := json.NewDecoder(os.Stdin)
	var s state
	if err := input.Decode(&s); err != nil {
		return err
	}
	ip := net.ParseIP(s.NodeIP)
	health := healthcheck.NewProxyHealthServer("", time.Minute, nil)
	p, err := nftables.NewProxier(context.Background(), corev1.IPv4Protocol, time.Hour, 0, false, 14,
		proxyutil.NewDetectLocalByCIDR(s.PodRange), "node", ip, nil, health, []string{s.NodeIP + "/32"}, false)
	if err != nil {
		return err
	}
	for _, service := range s.Services {
		p.OnServiceAdd(service)
	}
	for _, slice := range s.Slices {
		p.OnEndpointSliceAdd(slice)
	}
	p.OnServiceSynced()
	p.OnServiceCIDRsChanged([]string{s.ServiceRange})
	p.OnEndpointSlicesSynced() // which writes
	fmt.Println("synced")
	return input.Decode(&s) // until the end
}
