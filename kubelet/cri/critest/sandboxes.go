package critest

import (
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	sandboxReady    = runtimeapi.PodSandboxState_SANDBOX_READY
	sandboxNotReady = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
)

func checkSandboxLife(e *env) {
	begin := time.Now().UnixNano()
	id, _ := e.sandbox("a")
	e.sandboxIs(id, sandboxReady)
	// The clocks of the runtime and the check are those of one machine.
	if created := e.sandboxStatus(id).GetCreatedAt(); created < begin || created > time.Now().UnixNano() {
		e.Errorf("created at %d, which is not between the request and its answer", created)
	}
	for range 2 {
		e.succeeds(e.stopSandbox(id), "stop")
		e.sandboxIs(id, sandboxNotReady)
	}
	e.succeeds(e.removeSandbox(id), "remove")
	if list := e.listSandboxes(&runtimeapi.PodSandboxFilter{Id: id}); len(list) != 0 {
		e.Errorf("a removed sandbox is listed: %v", list)
	}
	_, err := e.Runtime.PodSandboxStatus(e.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	e.failsWith(codes.NotFound, err, "the status of a removed sandbox")
	e.succeeds(e.removeSandbox(id), "remove again")

	ready, _ := e.sandbox("a") // its name is free again
	e.succeeds(e.removeSandbox(ready), "remove while it is ready")
	if list := e.listSandboxes(&runtimeapi.PodSandboxFilter{Id: ready}); len(list) != 0 {
		e.Errorf("a sandbox that was removed while it was ready is listed: %v", list)
	}
}

// sandboxIs expects the state in the list and in the status.
func (e *env) sandboxIs(id string, want runtimeapi.PodSandboxState) {
	e.Helper()
	if got := e.sandboxStatus(id).GetState(); got != want {
		e.Errorf("status: the sandbox is %v, want %v", got, want)
	}
	list := e.listSandboxes(&runtimeapi.PodSandboxFilter{Id: id})
	if len(list) != 1 || list[0].GetState() != want {
		e.Errorf("list: %v, want one sandbox that is %v", list, want)
	}
}

func checkSandboxAttributes(e *env) {
	config := e.sandboxConfig("a")
	config.Metadata.Attempt = 7
	config.Hostname = "" // the host's, on the host's network
	config.Labels["io.kubernetes.pod.name"] = "a"
	config.Annotations = map[string]string{"words": "größer, \"than\" \n before", "empty": ""}
	config.PortMappings = []*runtimeapi.PortMapping{{Protocol: runtimeapi.Protocol_TCP, ContainerPort: 80}, {Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53}}
	options := config.Linux.SecurityContext.NamespaceOptions
	options.Pid, options.Ipc = runtimeapi.NamespaceMode_CONTAINER, runtimeapi.NamespaceMode_POD
	id := e.runSandbox(config)

	s := e.sandboxStatus(id)
	e.sameSandbox("status", config, s.GetMetadata(), s.GetLabels(), s.GetAnnotations())
	if got := s.GetLinux().GetNamespaces().GetOptions(); got.GetNetwork() != options.Network || got.GetPid() != options.Pid || got.GetIpc() != options.Ipc {
		e.Errorf("the namespaces are %v, want %v", got, options)
	}
	for _, item := range e.listSandboxes(&runtimeapi.PodSandboxFilter{Id: id}) {
		e.sameSandbox("list", config, item.GetMetadata(), item.GetLabels(), item.GetAnnotations())
		if item.GetCreatedAt() != s.GetCreatedAt() {
			e.Errorf("created at %d in the list, %d in the status", item.GetCreatedAt(), s.GetCreatedAt())
		}
	}
}

func (e *env) sameSandbox(where string, want *runtimeapi.PodSandboxConfig, m *runtimeapi.PodSandboxMetadata, labels, annotations map[string]string) {
	e.Helper()
	w := want.GetMetadata()
	if m.GetName() != w.GetName() || m.GetNamespace() != w.GetNamespace() || m.GetUid() != w.GetUid() || m.GetAttempt() != w.GetAttempt() {
		e.Errorf("%s: the metadata is %v, want %v", where, m, w)
	}
	if !contains(labels, want.GetLabels()) {
		e.Errorf("%s: the labels are %v, want %v", where, labels, want.GetLabels())
	}
	if !contains(annotations, want.GetAnnotations()) {
		e.Errorf("%s: the annotations are %q, want %q", where, annotations, want.GetAnnotations())
	}
}

// checkSandboxName: metadata is unique among the sandboxes that exist, and differs by its attempt.
func checkSandboxName(e *env) {
	first, _ := e.sandbox("a")
	again, err := e.Runtime.RunPodSandbox(e.ctx, &runtimeapi.RunPodSandboxRequest{Config: e.sandboxConfig("a")})
	e.fails(err, "run a second sandbox with the same metadata")
	if err == nil {
		e.sandboxes = append(e.sandboxes, again.GetPodSandboxId())
	}
	next := e.sandboxConfig("a")
	next.Metadata.Attempt = 1
	if second := e.runSandbox(next); second == first {
		e.Errorf("two sandboxes have the id %s", first)
	}
}

func checkSandboxFilters(e *env) {
	ready, _ := e.sandbox("ready")
	other := e.sandboxConfig("stopped")
	other.Labels["more"] = "yes"
	stopped := e.runSandbox(other)
	e.succeeds(e.stopSandbox(stopped), "stop")

	mine := map[string]string{"check": e.id}
	state := func(s runtimeapi.PodSandboxState) *runtimeapi.PodSandboxStateValue {
		return &runtimeapi.PodSandboxStateValue{State: s}
	}
	for _, test := range []struct {
		name   string
		filter *runtimeapi.PodSandboxFilter
		want   []string
	}{
		{"none", &runtimeapi.PodSandboxFilter{LabelSelector: mine}, []string{ready, stopped}},
		{"id", &runtimeapi.PodSandboxFilter{Id: ready}, []string{ready}},
		{"unknown id", &runtimeapi.PodSandboxFilter{Id: unknownID}, nil},
		{"ready", &runtimeapi.PodSandboxFilter{LabelSelector: mine, State: state(sandboxReady)}, []string{ready}},
		{"not ready", &runtimeapi.PodSandboxFilter{LabelSelector: mine, State: state(sandboxNotReady)}, []string{stopped}},
		{"labels", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"check": e.id, "more": "yes"}}, []string{stopped}},
		{"label with another value", &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"check": e.id, "more": "no"}}, nil},
		{"id and state", &runtimeapi.PodSandboxFilter{Id: ready, State: state(sandboxNotReady)}, nil},
		{"id and labels", &runtimeapi.PodSandboxFilter{Id: ready, LabelSelector: map[string]string{"more": "yes"}}, nil},
	} {
		var got []string
		for _, item := range e.listSandboxes(test.filter) {
			got = append(got, item.GetId())
		}
		if !sameSet(got, test.want) {
			e.Errorf("filter by %s: %q, want %q", test.name, got, test.want)
		}
	}
	var all []string
	for _, item := range e.listSandboxes(nil) {
		all = append(all, item.GetId())
	}
	if !slices.Contains(all, ready) || !slices.Contains(all, stopped) {
		e.Errorf("without a filter: %q, want %s and %s in it", all, ready, stopped)
	}
}

// unknownID has the form of an id.
const unknownID = "0000000000000000000000000000000000000000000000000000000000000000"

// sameSet reports whether two lists have the same strings, in any order.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// checkAddresses: a sandbox has addresses of its own, and one on the host's network has none.
func checkAddresses(e *env) {
	seen := map[netip.Addr]bool{}
	for _, name := range []string{"a", "b"} {
		id, _ := e.sandbox(name)
		network := e.sandboxStatus(id).GetNetwork()
		list := []string{network.GetIp()}
		for _, more := range network.GetAdditionalIps() {
			list = append(list, more.GetIp())
		}
		for _, text := range list {
			address, err := netip.ParseAddr(text)
			if err != nil || seen[address] {
				e.Errorf("the addresses of %s are %q, which are none or another sandbox's: %v", name, list, err)
			}
			seen[address] = true
		}
	}
	config := e.sandboxConfig("host")
	config.Linux.SecurityContext.NamespaceOptions.Network = runtimeapi.NamespaceMode_NODE
	if got := e.sandboxStatus(e.runSandbox(config)).GetNetwork().GetIp(); got != "" {
		e.Errorf("on the host's network, a sandbox has the address %s", got)
	}
}

// checkSandboxWithContainers: to stop a sandbox kills its containers, and to remove it removes them.
func checkSandboxWithContainers(e *env) {
	sandbox, running := e.running("a", "run")
	created := e.create(sandbox, e.sandboxConfig("a"), e.containerConfig("created", "run"))
	_, elsewhere := e.running("b", "run")

	e.succeeds(e.stopSandbox(sandbox), "stop")
	if s := e.exited(running); s.GetFinishedAt() == 0 {
		e.Errorf("a container of a stopped sandbox has not finished: %v", s)
	}
	if state := e.status(created).GetState(); state == containerRunning {
		e.Errorf("a created container of a stopped sandbox is %v", state)
	}
	if state := e.status(elsewhere).GetState(); state != containerRunning {
		e.Errorf("a container of another sandbox is %v", state)
	}
	_, err := e.Runtime.CreateContainer(e.ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, Config: e.containerConfig("late", "run"), SandboxConfig: e.sandboxConfig("a"),
	})
	e.fails(err, "create a container in a stopped sandbox")

	e.succeeds(e.removeSandbox(sandbox), "remove")
	if list := e.containers(&runtimeapi.ContainerFilter{PodSandboxId: sandbox}); len(list) != 0 {
		e.Errorf("a removed sandbox has containers: %v", list)
	}
	for _, id := range []string{running, created} {
		if code := e.statusCode(id); code != codes.NotFound {
			e.Errorf("the status of a container of a removed sandbox: %v", code)
		}
	}
}

func checkSandboxRefusals(e *env) {
	for name, config := range map[string]*runtimeapi.PodSandboxConfig{
		"without a configuration": nil,
		"without metadata":        {},
	} {
		out, err := e.Runtime.RunPodSandbox(e.ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
		e.fails(err, "run a sandbox "+name)
		if err == nil {
			e.sandboxes = append(e.sandboxes, out.GetPodSandboxId())
		}
	}
}
