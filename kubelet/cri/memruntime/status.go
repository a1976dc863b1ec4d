package memruntime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// newID returns 64 hexadecimal digits, as in containerd.
func newID() string {
	var b [32]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// now returns the time in nanoseconds and never the same value twice, so that creation order is
// total. The caller holds r.mu.
func (r *Runtime) now() int64 {
	r.lastTime = max(r.lastTime+1, time.Now().UnixNano())
	return r.lastTime
}

// Version returns the name and version of this runtime.
func (r *Runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version:           "0.1.0",
		RuntimeName:       "memruntime",
		RuntimeVersion:    "0.1.0",
		RuntimeApiVersion: "v1",
	}, nil
}

// Status returns RuntimeReady true, and NetworkReady once there is an address range.
func (r *Runtime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	network := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true}
	if len(r.pools) == 0 {
		network.Status = false
		network.Reason = "NetworkPluginNotReady"
		network.Message = "no pod address range was given"
	}
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		network,
	}}}, nil
}

// UpdateRuntimeConfig sets the pod address range: one CIDR, or two separated by a comma. An empty
// range changes nothing. Allocated addresses stay allocated.
func (r *Runtime) UpdateRuntimeConfig(_ context.Context, in *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	cidr := in.GetRuntimeConfig().GetNetworkConfig().GetPodCidr()
	if cidr != "" {
		pools, err := newPools(cidr)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.sandboxes {
			for _, p := range pools {
				p.take(s.addresses)
			}
		}
		r.pools = pools
	}
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}
