package critest

import (
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// exitKilled is 128 and SIGKILL.
const exitKilled = 137

// checkStopGracefully: a container that ends when it gets TERM has its own exit code and does not
// use up its grace period.
func checkStopGracefully(e *env) {
	_, id := e.running("a", "run")
	begin := time.Now()
	e.succeeds(e.stop(id, 30), "stop")
	if s := e.containerIs(id, containerExited); s.GetExitCode() != 0 {
		e.Errorf("the exit code is %d, want the program's own", s.GetExitCode())
	}
	if took := time.Since(begin); took >= 30*time.Second {
		e.Errorf("it took %v", took)
	}
}

// checkStopAtOnce: without a grace period, a container is killed.
func checkStopAtOnce(e *env) {
	_, id := e.running("a", "run")
	e.succeeds(e.stop(id, 0), "stop")
	if s := e.containerIs(id, containerExited); s.GetExitCode() != exitKilled || s.GetReason() != "Error" {
		e.Errorf("the exit code is %d, the reason %s", s.GetExitCode(), s.GetReason())
	}
}

// checkStopStubborn: a container that does not end is killed after its grace period.
func checkStopStubborn(e *env) {
	_, id := e.running("a", "stubborn")
	begin := time.Now()
	e.succeeds(e.stop(id, 1), "stop")
	if took := time.Since(begin); took < time.Second {
		e.Errorf("it was killed after %v of 1s", took)
	}
	if s := e.containerIs(id, containerExited); s.GetExitCode() != exitKilled {
		e.Errorf("the exit code is %d", s.GetExitCode())
	}
}

// checkUnknown: calls about a container that does not exist.
func checkUnknown(e *env) {
	for name, call := range map[string]func() error{
		"start": func() error {
			_, err := e.Runtime.StartContainer(e.ctx, &runtimeapi.StartContainerRequest{ContainerId: unknownID})
			return err
		},
		"status": func() error {
			_, err := e.Runtime.ContainerStatus(e.ctx, &runtimeapi.ContainerStatusRequest{ContainerId: unknownID})
			return err
		},
		"sandbox status": func() error {
			_, err := e.Runtime.PodSandboxStatus(e.ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: unknownID})
			return err
		},
		"exec": func() error {
			_, err := e.Runtime.ExecSync(e.ctx, &runtimeapi.ExecSyncRequest{ContainerId: unknownID, Cmd: []string{"x"}, Timeout: 5})
			return err
		},
		"update": func() error {
			_, err := e.Runtime.UpdateContainerResources(e.ctx, &runtimeapi.UpdateContainerResourcesRequest{
				ContainerId: unknownID, Linux: &runtimeapi.LinuxContainerResources{CpuShares: 2},
			})
			return err
		},
		"reopen log": func() error {
			_, err := e.Runtime.ReopenContainerLog(e.ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: unknownID})
			return err
		},
	} {
		e.failsWith(codes.NotFound, call(), name)
	}
}

// checkIdempotence: to stop or remove what is not there succeeds, as does to stop what has stopped.
func checkIdempotence(e *env) {
	if !e.lacks(UnknownStops) {
		e.succeeds(e.stopSandbox(unknownID), "stop an unknown sandbox")
		e.succeeds(e.stop(unknownID, 1), "stop an unknown container")
	}
	e.succeeds(e.removeSandbox(unknownID), "remove an unknown sandbox")
	e.succeeds(e.remove(unknownID), "remove an unknown container")
	_, err := e.Runtime.RemoveImage(e.ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: "critest.invalid/never/pulled:1"}})
	e.succeeds(err, "remove an unknown image")

	sandbox, of := e.sandbox("a")
	created := e.create(sandbox, of, e.containerConfig("created", "run"))
	e.succeeds(e.stop(created, 1), "stop a created container")
	exited := e.create(sandbox, of, e.containerConfig("exited", "exit", "3"))
	e.start(exited)
	before := e.exited(exited)
	for range 2 {
		e.succeeds(e.stop(exited, 1), "stop an exited container")
	}
	if after := e.status(exited); after.GetExitCode() != 3 || after.GetFinishedAt() != before.GetFinishedAt() {
		e.Errorf("to stop an exited container changed it: %v, then %v", before, after)
	}
}
