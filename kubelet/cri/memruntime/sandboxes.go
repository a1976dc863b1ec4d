package memruntime

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type sandbox struct {
	id        string
	name      string
	config    *runtimeapi.PodSandboxConfig
	handler   string
	ready     bool
	created   int64
	addresses []netip.Addr
}

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return strings.Join([]string{m.GetName(), m.GetNamespace(), m.GetUid(), fmt.Sprint(m.GetAttempt())}, "_")
}

// reserve reserves name for id. The caller holds r.mu.
func (r *Runtime) reserve(kind, name, id string) error {
	if holder, taken := r.names[name]; taken {
		return status.Errorf(codes.Unknown, "failed to reserve %s name %q: name %q is reserved for %q", kind, name, name, holder)
	}
	r.names[name] = id
	return nil
}

// RunPodSandbox creates a ready sandbox with an address from each range.
func (r *Runtime) RunPodSandbox(_ context.Context, in *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	m := in.GetConfig().GetMetadata()
	if m.GetName() == "" || m.GetUid() == "" {
		return nil, status.Error(codes.InvalidArgument, "sandbox config must include metadata with name and uid")
	}
	s := &sandbox{id: newID(), name: sandboxName(m), config: in.GetConfig(), handler: in.GetRuntimeHandler(), ready: true}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.reserve("sandbox", s.name, s.id); err != nil {
		return nil, err
	}
	if err := r.connect(s); err != nil {
		delete(r.names, s.name)
		return nil, err
	}
	s.created = r.now()
	r.sandboxes[s.id] = s
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

// connect allocates the addresses of a sandbox; none on the host's network. The caller holds r.mu.
func (r *Runtime) connect(s *sandbox) error {
	mode := s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork()
	if mode == runtimeapi.NamespaceMode_NODE {
		return nil
	}
	if len(r.pools) == 0 {
		return status.Errorf(codes.Unknown, "failed to setup network for sandbox %q: no pod address range was given", s.id)
	}
	for _, p := range r.pools {
		a, err := p.give()
		if err != nil {
			r.disconnect(s)
			return err
		}
		s.addresses = append(s.addresses, a)
	}
	return nil
}

// disconnect frees a sandbox's addresses. The caller holds r.mu.
func (r *Runtime) disconnect(s *sandbox) {
	for _, p := range r.pools {
		p.free(s.addresses)
	}
	s.addresses = nil
}

// StopPodSandbox kills the containers of a sandbox and frees its addresses. An unknown sandbox
// counts as stopped.
func (r *Runtime) StopPodSandbox(_ context.Context, in *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[in.GetPodSandboxId()]; s != nil {
		r.stopSandbox(s)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (r *Runtime) stopSandbox(s *sandbox) {
	for _, c := range r.containers {
		if c.sandbox == s {
			r.exit(c, exitKilled)
		}
	}
	r.disconnect(s)
	s.ready = false
}

// RemovePodSandbox stops a sandbox and removes it and its containers.
func (r *Runtime) RemovePodSandbox(_ context.Context, in *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sandboxes[in.GetPodSandboxId()]; s != nil {
		r.stopSandbox(s)
		for _, c := range r.containers {
			if c.sandbox == s {
				r.remove(c)
			}
		}
		delete(r.sandboxes, s.id)
		delete(r.names, s.name)
	}
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus returns the status of a sandbox.
func (r *Runtime) PodSandboxStatus(_ context.Context, in *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[in.GetPodSandboxId()]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "sandbox %q: not found", in.GetPodSandboxId())
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: s.status()}, nil
}

func (s *sandbox) status() *runtimeapi.PodSandboxStatus {
	network := &runtimeapi.PodSandboxNetworkStatus{}
	for i, a := range s.addresses {
		if i == 0 {
			network.Ip = a.String()
		} else {
			network.AdditionalIps = append(network.AdditionalIps, &runtimeapi.PodIP{Ip: a.String()})
		}
	}
	return &runtimeapi.PodSandboxStatus{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created, Network: network,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{
			Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions(),
		}},
		Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
	}
}

// ListPodSandbox lists the sandboxes that match the filter, oldest first.
func (r *Runtime) ListPodSandbox(_ context.Context, in *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	f := in.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	for s := range maps.Values(r.sandboxes) {
		if f.GetId() != "" && f.GetId() != s.id ||
			f.GetState() != nil && f.GetState().GetState() != s.state() ||
			!selects(f.GetLabelSelector(), s.config.GetLabels()) {
			continue
		}
		out.Items = append(out.Items, &runtimeapi.PodSandbox{
			Id: s.id, Metadata: s.config.GetMetadata(), State: s.state(), CreatedAt: s.created,
			Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
		})
	}
	slices.SortFunc(out.Items, func(a, b *runtimeapi.PodSandbox) int { return int(a.CreatedAt - b.CreatedAt) })
	return out, nil
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
