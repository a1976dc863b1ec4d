package critest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// A recorder is a test that writes its failures down.
type recorder struct {
	ctx        context.Context
	complaints []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Errorf(format string, args ...any) {
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// complaints runs one check.
func complaints(t *testing.T, name string, c Config) []string {
	t.Helper()
	all := checks()
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no check %q", name)
	}
	r := &recorder{ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all[i].on(r, c)
	}()
	<-done
	return r.complaints
}

// A breakage changes the answers of a runtime. It returns the answer for a request, given the right
// one.
type breakage func(in, out any, err error) (any, error)

func (b breakage) intercept(ctx context.Context, in any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	out, err := next(ctx, in)
	return b(in, out, err)
}

// onAnswer breaks the successful answers of one type.
func onAnswer[Answer any](change func(Answer)) breakage {
	return func(_, out any, err error) (any, error) {
		if answer, ok := out.(Answer); ok && err == nil {
			change(answer)
		}
		return out, err
	}
}

// onContainer breaks the status of containers.
func onContainer(change func(*runtimeapi.ContainerStatus)) breakage {
	return onAnswer(func(out *runtimeapi.ContainerStatusResponse) { change(out.Status) })
}

// otherCode gives the errors of requests of one type another code.
func otherCode[Request any](code codes.Code) breakage {
	return func(in, out any, err error) (any, error) {
		if _, ok := in.(Request); ok && err != nil {
			return nil, status.Error(code, err.Error())
		}
		return out, err
	}
}

// forgetful fails the second of equal requests of one type.
func forgetful[Request interface{ String() string }]() breakage {
	seen := map[string]bool{}
	return func(in, out any, err error) (any, error) {
		if request, ok := in.(Request); ok {
			if seen[request.String()] {
				return nil, status.Error(codes.NotFound, "no such thing")
			}
			seen[request.String()] = true
		}
		return out, err
	}
}

// A failure is a way to fail a check, and the words of one complaint about it.
type failure struct {
	check string
	words string
	breakage
}

func failures() []failure {
	return []failure{
		{"version", "the name is empty", onAnswer(func(out *runtimeapi.VersionResponse) { out.RuntimeName = "" })},
		{"conditions", "2 conditions NetworkReady", onAnswer(func(out *runtimeapi.StatusResponse) {
			out.Status.Conditions = append(out.Status.Conditions, &runtimeapi.RuntimeCondition{Type: "NetworkReady", Status: true})
		})},
		{"conditions", "RuntimeReady is false", onAnswer(func(out *runtimeapi.StatusResponse) { out.Status.Conditions[0].Status = false })},
		{"sandbox life", "created at 5", onAnswer(func(out *runtimeapi.PodSandboxStatusResponse) { out.Status.CreatedAt = 5 })},
		{"sandbox life", "the sandbox is SANDBOX_NOTREADY", onAnswer(func(out *runtimeapi.PodSandboxStatusResponse) { out.Status.State = sandboxNotReady })},
		{"sandbox life", "stop: ", forgetful[*runtimeapi.StopPodSandboxRequest]()},
		{"sandbox life", "the status of a removed sandbox", otherCode[*runtimeapi.PodSandboxStatusRequest](codes.Unknown)},
		{"sandbox attributes", "the annotations are", onAnswer(func(out *runtimeapi.ListPodSandboxResponse) { out.Items[0].Annotations = nil })},
		{"sandbox attributes", "the namespaces are", onAnswer(func(out *runtimeapi.PodSandboxStatusResponse) { out.Status.Linux = nil })},
		{"sandbox attributes", "the metadata is", onAnswer(func(out *runtimeapi.PodSandboxStatusResponse) { out.Status.Metadata.Attempt = 0 })},
		{"sandbox filters", "filter by unknown id", onAnswer(func(out *runtimeapi.ListPodSandboxResponse) {
			if len(out.Items) == 0 {
				out.Items = append(out.Items, &runtimeapi.PodSandbox{Id: "other"})
			}
		})},
		{"sandbox addresses", "another sandbox's", onAnswer(func(out *runtimeapi.PodSandboxStatusResponse) { out.Status.Network.Ip = "10.0.0.1" })},
		{"sandbox name", "two sandboxes have the id", onAnswer(func(out *runtimeapi.RunPodSandboxResponse) { out.PodSandboxId = "same" })},
		{"container life", "has started or finished", onContainer(func(s *runtimeapi.ContainerStatus) { s.FinishedAt = s.CreatedAt })},
		{"container life", "the container is CONTAINER_UNKNOWN", onContainer(func(s *runtimeapi.ContainerStatus) { s.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN })},
		{"container life", "when it gets TERM", onContainer(func(s *runtimeapi.ContainerStatus) { s.Reason = "" })},
		{"container attributes", "the log is at", onContainer(func(s *runtimeapi.ContainerStatus) { s.LogPath = "/elsewhere" })},
		{"container attributes", "the mounts are", onContainer(func(s *runtimeapi.ContainerStatus) { s.Mounts = nil })},
		{"container attributes", "the labels are", onContainer(func(s *runtimeapi.ContainerStatus) { delete(s.Labels, "name") })},
		{"container attributes", "the user is", onContainer(func(s *runtimeapi.ContainerStatus) {
			s.User = &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{}}
		})},
		{"container attempts", "two containers have the id", onAnswer(func(out *runtimeapi.CreateContainerResponse) { out.ContainerId = "same" })},
		{"container filters", "filter by sandbox", onAnswer(func(out *runtimeapi.ListContainersResponse) {
			out.Containers = out.Containers[:min(len(out.Containers), 1)]
		})},
		{"container exit", "exit with 255: -1", onContainer(func(s *runtimeapi.ContainerStatus) { s.ExitCode = int32(int8(s.ExitCode)) })},
		{"container refusals", "in an unknown sandbox", otherCode[*runtimeapi.CreateContainerRequest](codes.Unknown)},
		{"remove container", "remove a container", forgetful[*runtimeapi.RemoveContainerRequest]()},
		{"stop gracefully", "the exit code is 143", onContainer(func(s *runtimeapi.ContainerStatus) { s.ExitCode = 143 })},
		{"stop at once", "the exit code is 0", onContainer(func(s *runtimeapi.ContainerStatus) { s.ExitCode = 0 })},
		{"unknown", "exec: ", otherCode[*runtimeapi.ExecSyncRequest](codes.Unknown)},
		{"unknown", "status: ", otherCode[*runtimeapi.ContainerStatusRequest](codes.Internal)},
		{"idempotence", "stop an exited container", forgetful[*runtimeapi.StopContainerRequest]()},
		{"exec", `"out\nerr\n", "", 7`, onAnswer(func(out *runtimeapi.ExecSyncResponse) {
			out.Stdout, out.Stderr = append(out.Stdout, out.Stderr...), nil
		})},
		{"exec timeout", "want the code DeadlineExceeded", otherCode[*runtimeapi.ExecSyncRequest](codes.Unknown)},
		{"exec flood", "after a flood: 1000 bytes", onAnswer(func(out *runtimeapi.ExecSyncResponse) { out.Stdout = out.Stdout[:1000] })},
		{"stream refusals", "want the code InvalidArgument", otherCode[*runtimeapi.ExecRequest](codes.Unknown)},
		{"stream input", "the URL is", onAnswer(func(out *runtimeapi.ExecResponse) { out.Url = "unix:///run/streams" })},
		{"attach", "the runtime answers 404", onAnswer(func(out *runtimeapi.AttachResponse) { out.Url += "0" })},
		{"log", "a container without a log", onContainer(func(s *runtimeapi.ContainerStatus) { s.LogPath = "/somewhere" })},
		{"reopen log", "after the log was reopened", func(in, out any, err error) (any, error) {
			if request, ok := in.(*runtimeapi.ReopenContainerLogRequest); ok && request.ContainerId != "" {
				return nil, status.Error(codes.Unknown, "after the log was reopened")
			}
			return out, err
		}},
		{"resource status", "the resources are", onContainer(func(s *runtimeapi.ContainerStatus) { s.Resources = nil })},
		{"stats", "stats by id: found: false", onAnswer(func(out *runtimeapi.ListContainerStatsResponse) {
			for _, s := range out.Stats {
				s.Attributes.Id = "other"
			}
		})},
		{"pull by tag", "the tags are", onAnswer(func(out *runtimeapi.ImageStatusResponse) {
			if out.Image != nil {
				out.Image = &runtimeapi.Image{Id: out.Image.Id, Size: 1}
			}
		})},
		{"pull by tag", "has no id or no size", onAnswer(func(out *runtimeapi.ImageStatusResponse) { out.Image = nil })},
		{"pull by digest", "want only the digest", onAnswer(func(out *runtimeapi.ImageStatusResponse) {
			if out.Image != nil {
				out.Image = &runtimeapi.Image{Id: out.Image.Id, Size: 1}
			}
		})},
		{"pull what is missing", "want the code NotFound", otherCode[*runtimeapi.PullImageRequest](codes.Unknown)},
		{"image references", "list: the image is", onAnswer(func(out *runtimeapi.ListContainersResponse) {
			for _, c := range out.Containers {
				c.ImageRef = "sha256:else"
			}
		})},
		{"image file system", "there is no file system", onAnswer(func(out *runtimeapi.ImageFsInfoResponse) { out.ImageFilesystems = nil })},
	}
}

// TestBreakages: the checks notice runtimes that are wrong in one answer.
func TestBreakages(t *testing.T) {
	for _, b := range failures() {
		t.Run(b.check+"/"+b.words, func(t *testing.T) {
			c := start(t, func(c *memruntime.Config) { c.Intercept = b.intercept })
			got := complaints(t, b.check, c)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, b.words) }) {
				t.Errorf("the complaints are %q", got)
			}
		})
	}
}
