package critest

import (
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	containerCreated = runtimeapi.ContainerState_CONTAINER_CREATED
	containerRunning = runtimeapi.ContainerState_CONTAINER_RUNNING
	containerExited  = runtimeapi.ContainerState_CONTAINER_EXITED
)

func checkContainerLife(e *env) {
	sandbox, of := e.sandbox("a")
	begin := time.Now().UnixNano()
	id := e.create(sandbox, of, e.containerConfig("a", "run"))
	s := e.containerIs(id, containerCreated)
	if s.GetCreatedAt() < begin || s.GetCreatedAt() > time.Now().UnixNano() {
		e.Errorf("created at %d, which is not between the request and its answer", s.GetCreatedAt())
	}
	if s.GetStartedAt() != 0 || s.GetFinishedAt() != 0 || s.GetExitCode() != 0 {
		e.Errorf("a created container has started or finished: %v", s)
	}

	e.start(id)
	e.ready("a")
	s = e.containerIs(id, containerRunning)
	if s.GetStartedAt() < s.GetCreatedAt() || s.GetFinishedAt() != 0 {
		e.Errorf("a running container started before it was created, or has finished: %v", s)
	}
	_, err := e.Runtime.StartContainer(e.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	e.fails(err, "start a running container")

	e.succeeds(e.stop(id, 30), "stop")
	s = e.containerIs(id, containerExited)
	if s.GetExitCode() != 0 || s.GetReason() != "Completed" || s.GetFinishedAt() < s.GetStartedAt() {
		e.Errorf("a container that ends well when it gets TERM: %v", s)
	}
	_, err = e.Runtime.StartContainer(e.ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	e.fails(err, "start an exited container")
	e.containerIs(id, containerExited)
}

// containerIs expects the state in the list and in the status, which it returns.
func (e *env) containerIs(id string, want runtimeapi.ContainerState) *runtimeapi.ContainerStatus {
	e.Helper()
	s := e.status(id)
	if s.GetState() != want {
		e.Errorf("status: the container is %v, want %v", s.GetState(), want)
	}
	list := e.containers(&runtimeapi.ContainerFilter{Id: id})
	if len(list) != 1 || list[0].GetState() != want {
		e.Errorf("list: %v, want one container that is %v", list, want)
	}
	return s
}

func checkContainerAttributes(e *env) {
	sandbox, of := e.sandbox("a")
	config := e.containerConfig("a", "run")
	config.Metadata.Attempt = 3
	config.Labels["io.kubernetes.container.name"] = "a"
	config.Annotations = map[string]string{"words": "größer, \"than\" \n before", "empty": ""}
	config.Mounts = []*runtimeapi.Mount{
		{HostPath: of.GetLogDirectory(), ContainerPath: "/writable"},
		{HostPath: of.GetLogDirectory(), ContainerPath: "/readonly", Readonly: true},
	}
	config.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{
		RunAsUser: &runtimeapi.Int64Value{Value: 12}, RunAsGroup: &runtimeapi.Int64Value{Value: 34}, SupplementalGroups: []int64{56},
	}
	id := e.create(sandbox, of, config)
	e.start(id)

	s := e.status(id)
	e.sameContainer("status", config, s.GetMetadata(), s.GetLabels(), s.GetAnnotations())
	if want := filepath.Join(of.GetLogDirectory(), config.GetLogPath()); s.GetLogPath() != want {
		e.Errorf("the log is at %q, want %q", s.GetLogPath(), want)
	}
	if s.GetImage().GetImage() == "" || s.GetImageRef() == "" {
		e.Errorf("the image is %q, %q", s.GetImage().GetImage(), s.GetImageRef())
	}
	mounts := map[string]bool{}
	for _, m := range s.GetMounts() {
		if m.GetHostPath() == of.GetLogDirectory() {
			mounts[m.GetContainerPath()] = m.GetReadonly()
		}
	}
	if readonly, ok := mounts["/readonly"]; len(mounts) != 2 || !ok || !readonly || mounts["/writable"] {
		e.Errorf("the mounts are %v", s.GetMounts())
	}
	// Only newer runtimes report the user.
	if user := s.GetUser().GetLinux(); user != nil && (user.GetUid() != 12 || user.GetGid() != 34) {
		e.Errorf("the user is %v", user)
	}
	list := e.containers(&runtimeapi.ContainerFilter{Id: id})
	if len(list) != 1 {
		e.Fatalf("list: %v", list)
	}
	e.sameContainer("list", config, list[0].GetMetadata(), list[0].GetLabels(), list[0].GetAnnotations())
	if list[0].GetPodSandboxId() != sandbox || list[0].GetCreatedAt() != s.GetCreatedAt() || list[0].GetImageRef() == "" {
		e.Errorf("list: %v", list[0])
	}
}

func (e *env) sameContainer(where string, want *runtimeapi.ContainerConfig, m *runtimeapi.ContainerMetadata, labels, annotations map[string]string) {
	e.Helper()
	if m.GetName() != want.GetMetadata().GetName() || m.GetAttempt() != want.GetMetadata().GetAttempt() {
		e.Errorf("%s: the metadata is %v, want %v", where, m, want.GetMetadata())
	}
	if !contains(labels, want.GetLabels()) {
		e.Errorf("%s: the labels are %v, want %v", where, labels, want.GetLabels())
	}
	if !contains(annotations, want.GetAnnotations()) {
		e.Errorf("%s: the annotations are %q, want %q", where, annotations, want.GetAnnotations())
	}
}

// checkAttempts: the name of a container is unique in its sandbox, and differs by its attempt.
func checkAttempts(e *env) {
	sandbox, of := e.sandbox("a")
	first := e.create(sandbox, of, e.containerConfig("a", "run"))
	_, err := e.Runtime.CreateContainer(e.ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: e.containerConfig("a", "run"), SandboxConfig: of})
	e.fails(err, "create a second container with the same metadata")
	next := e.containerConfig("a", "run")
	next.Metadata.Attempt = 1
	second := e.create(sandbox, of, next)
	if first == second {
		e.Errorf("two containers have the id %s", first)
	}
	e.succeeds(e.remove(first), "remove")
	e.create(sandbox, of, e.containerConfig("a", "run")) // its name is free again
}

func checkContainerFilters(e *env) {
	sandbox, of := e.sandbox("a")
	created := e.create(sandbox, of, e.containerConfig("created", "run"))
	exited := e.create(sandbox, of, e.containerConfig("exited", "exit", "0"))
	e.start(exited)
	e.exited(exited)
	other, running := e.running("running", "run")

	mine := map[string]string{"check": e.id}
	state := func(s runtimeapi.ContainerState) *runtimeapi.ContainerStateValue {
		return &runtimeapi.ContainerStateValue{State: s}
	}
	for _, test := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		{"labels", &runtimeapi.ContainerFilter{LabelSelector: mine}, []string{created, exited, running}},
		{"more labels", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"check": e.id, "name": "exited"}}, []string{exited}},
		{"label with another value", &runtimeapi.ContainerFilter{LabelSelector: map[string]string{"check": e.id, "name": "none"}}, nil},
		{"id", &runtimeapi.ContainerFilter{Id: created}, []string{created}},
		{"unknown id", &runtimeapi.ContainerFilter{Id: unknownID}, nil},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: sandbox}, []string{created, exited}},
		{"unknown sandbox", &runtimeapi.ContainerFilter{PodSandboxId: unknownID}, nil},
		{"created", &runtimeapi.ContainerFilter{LabelSelector: mine, State: state(containerCreated)}, []string{created}},
		{"running", &runtimeapi.ContainerFilter{LabelSelector: mine, State: state(containerRunning)}, []string{running}},
		{"exited", &runtimeapi.ContainerFilter{LabelSelector: mine, State: state(containerExited)}, []string{exited}},
		{"sandbox and state", &runtimeapi.ContainerFilter{PodSandboxId: other, State: state(containerExited)}, nil},
		{"id and sandbox", &runtimeapi.ContainerFilter{Id: created, PodSandboxId: other}, nil},
		{"all", &runtimeapi.ContainerFilter{Id: running, PodSandboxId: other, LabelSelector: mine, State: state(containerRunning)}, []string{running}},
	} {
		var got []string
		for _, item := range e.containers(test.filter) {
			got = append(got, item.GetId())
		}
		if !sameSet(got, test.want) {
			e.Errorf("filter by %s: %q, want %q", test.name, got, test.want)
		}
	}
}

// checkExit: the exit code of a container and the order of its times are those of its process.
func checkExit(e *env) {
	sandbox, of := e.sandbox("a")
	for _, test := range []struct {
		code   string
		want   int32
		reason string
	}{
		{"0", 0, "Completed"}, {"1", 1, "Error"}, {"255", 255, "Error"},
	} {
		id := e.create(sandbox, of, e.containerConfig("exit-"+test.code, "exit", test.code))
		e.start(id)
		s := e.exited(id)
		if s.GetExitCode() != test.want || s.GetReason() != test.reason {
			e.Errorf("exit with %s: %d, %s, want %s", test.code, s.GetExitCode(), s.GetReason(), test.reason)
		}
		// containerd records the start when it has returned, by when a short container has ended.
		if s.GetCreatedAt() > s.GetStartedAt() || s.GetStartedAt() > s.GetFinishedAt()+int64(time.Second) {
			e.Errorf("exit with %s: created at %d, started at %d, finished at %d", test.code, s.GetCreatedAt(), s.GetStartedAt(), s.GetFinishedAt())
		}
	}
}

func checkContainerRefusals(e *env) {
	sandbox, of := e.sandbox("a")
	e.needImage()
	create := func(sandbox string, config *runtimeapi.ContainerConfig) error {
		_, err := e.Runtime.CreateContainer(e.ctx, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: config, SandboxConfig: of})
		return err
	}
	e.fails(create(sandbox, nil), "create a container without a configuration")
	e.failsWith(codes.NotFound, create(unknownID, e.containerConfig("a", "run")), "create a container in an unknown sandbox")
	imageless := e.containerConfig("a", "run")
	imageless.Image = &runtimeapi.ImageSpec{Image: "critest.invalid/never/pulled:1"}
	e.fails(create(sandbox, imageless), "create a container from an image that the runtime does not have")
	userless := e.containerConfig("a", "run")
	userless.Linux.SecurityContext = &runtimeapi.LinuxContainerSecurityContext{RunAsGroup: &runtimeapi.Int64Value{Value: 34}}
	e.fails(create(sandbox, userless), "create a container with a group and no user")
	e.create(sandbox, of, e.containerConfig("a", "run")) // what failed has not taken the name
}

func checkRemoveContainer(e *env) {
	sandbox, of := e.sandbox("a")
	created := e.create(sandbox, of, e.containerConfig("created", "run"))
	exited := e.create(sandbox, of, e.containerConfig("exited", "exit", "0"))
	e.start(exited)
	e.exited(exited)
	_, running := e.running("running", "run")
	for state, id := range map[string]string{"created": created, "exited": exited, "running": running} {
		for range 2 {
			e.succeeds(e.remove(id), "remove a container that was "+state)
		}
		if list := e.containers(&runtimeapi.ContainerFilter{Id: id}); len(list) != 0 {
			e.Errorf("a removed container that was %s is listed: %v", state, list)
		}
		if code := e.statusCode(id); code != codes.NotFound {
			e.Errorf("the status of a removed container that was %s: %v", state, code)
		}
	}
}
