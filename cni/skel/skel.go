// Package skel turns functions into a CNI plugin: it reads and checks the environment and the
// standard input, calls the function for the command, and writes the result or the error in the
// form of the specification.
//
//	func main() {
//		os.Exit(skel.Plugin{Add: add, Del: del}.Main(skel.Process{
//			Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
//		}))
//	}
//
// A function may return a [*cni.Error] with a code of its own. Other errors are reported with code
// 5 if they are from the operating system, and otherwise 100. The process then exits with 1 and
// writes only the error to its standard output.
package skel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/planekit/planekit/cni"
)

// Plugin consists of functions. A nil function does nothing and succeeds. The context is that of
// Process.
type Plugin struct {
	// Name is used in messages.
	Name string
	// Add attaches a container. It must return a result.
	Add func(context.Context, *Request) (*cni.Result, error)
	// Del detaches a container. It must succeed if nothing is left to do.
	Del func(context.Context, *Request) error
	// Check reports whether an attachment still matches Request.Previous.
	Check func(context.Context, *Request) error
	// GC frees the resources of attachments that are not in Request.Valid.
	GC func(context.Context, *Request) error
	// Status reports whether an Add could succeed now.
	Status func(context.Context, *Request) error
}

// Process is the environment of a plugin.
type Process struct {
	// Context ends the call early; nil means the background context.
	Context        context.Context
	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Executor runs the plugins that this one delegates to. Nil means
	// cni.Processes.
	Executor cni.Executor
}

// Request is one call of a plugin.
type Request struct {
	Command string
	// ContainerID, NetNS and IfName are set if the command has them.
	ContainerID, NetNS, IfName string
	Args                       cni.Args
	// Path lists the directories of plugin executables.
	Path []string
	// Stdin is the whole configuration.
	Stdin []byte
	// Conf contains the common keys of configurations.
	Conf
	// Previous is the result of the previous plugin, or of the whole list for DEL and CHECK; nil if
	// there is none.
	Previous *cni.Result

	executor cni.Executor
}

// Conf contains the keys that all configurations share.
type Conf struct {
	CNIVersion string          `json:"cniVersion"`
	Name       string          `json:"name"`
	Type       string          `json:"type"`
	PrevResult json.RawMessage `json:"prevResult"`
	// Valid are the attachments that GC must keep; nil if not given.
	Valid []cni.Attachment `json:"cni.dev/valid-attachments"`
}

// maxStdin bounds the configuration, in bytes.
const maxStdin = 4 << 20

// Main makes one call and returns the exit code.
func (p Plugin) Main(proc Process) int {
	if proc.Context == nil {
		proc.Context = context.Background()
	}
	if proc.Executor == nil {
		proc.Executor = cni.Processes{}
	}
	if proc.Getenv("CNI_COMMAND") == "" {
		fmt.Fprintf(proc.Stderr, "%s: a CNI plugin, to be called by a container runtime; CNI versions %q\n", p.Name, cni.Versions())
		return 1
	}
	r, err := read(proc)
	var out []byte
	if err == nil {
		out, err = p.run(proc.Context, r)
	}
	if err != nil {
		out = encodeError(r, err)
	}
	if _, werr := proc.Stdout.Write(out); werr != nil || err != nil {
		return 1
	}
	return 0
}

func read(proc Process) (*Request, error) {
	stdin, err := io.ReadAll(io.LimitReader(proc.Stdin, maxStdin+1))
	if err != nil {
		return nil, cni.Errorf(cni.CodeIO, "read configuration: %v", err)
	}
	if len(stdin) > maxStdin {
		return nil, cni.Errorf(cni.CodeDecoding, "configuration longer than %d bytes", maxStdin)
	}
	args, err := cni.ParseArgs(proc.Getenv("CNI_ARGS"))
	if err != nil {
		return nil, err
	}
	return newRequest(cni.Call{
		Command:     proc.Getenv("CNI_COMMAND"),
		ContainerID: proc.Getenv("CNI_CONTAINERID"),
		NetNS:       proc.Getenv("CNI_NETNS"),
		IfName:      proc.Getenv("CNI_IFNAME"),
		Args:        args,
		Path:        filepath.SplitList(proc.Getenv("CNI_PATH")),
		Stdin:       stdin,
	}, proc.Executor)
}

// newRequest checks a call. The request may be usable even with an error.
func newRequest(c cni.Call, delegates cni.Executor) (*Request, error) {
	r := &Request{
		Command: c.Command, ContainerID: c.ContainerID, NetNS: c.NetNS, IfName: c.IfName,
		Args: c.Args, Path: c.Path, Stdin: c.Stdin, executor: delegates,
	}
	if err := json.Unmarshal(r.Stdin, &r.Conf); err != nil {
		return r, cni.Errorf(cni.CodeDecoding, "configuration: %v", err)
	}
	if r.Command == cni.CmdVersion {
		return r, nil
	}
	return r, r.check()
}

// Exec makes one call within this process, like a [cni.Executor]. delegates runs the plugins to
// which this one delegates.
func (p Plugin) Exec(ctx context.Context, c cni.Call, delegates cni.Executor) ([]byte, error) {
	r, err := newRequest(c, delegates)
	var out []byte
	if err == nil {
		out, err = p.run(ctx, r)
	}
	if err != nil {
		return nil, asError(err)
	}
	return out, nil
}

func (r *Request) check() error {
	if !cni.Supported(r.CNIVersion) {
		return &cni.Error{
			Code: cni.CodeIncompatibleVersion, Msg: "incompatible CNI versions",
			Details: fmt.Sprintf("configuration is %q, supported are %q", r.CNIVersion, cni.Versions()),
		}
	}
	if err := cni.CheckName(r.Name); err != nil {
		return cni.Errorf(cni.CodeInvalidConfig, "network: %v", err)
	}
	needs := map[string]string{
		cni.CmdAdd: "0.3.0", cni.CmdDel: "0.3.0", cni.CmdCheck: "0.4.0",
		cni.CmdGC: "1.1.0", cni.CmdStatus: "1.1.0",
	}
	version, known := needs[r.Command]
	switch {
	case !known:
		return cni.Errorf(cni.CodeInvalidEnvironment, "unknown CNI_COMMAND %q", r.Command)
	case !cni.AtLeast(r.CNIVersion, version):
		return cni.Errorf(cni.CodeIncompatibleVersion, "%s needs version %s, configuration is %q", r.Command, version, r.CNIVersion)
	}
	if r.Command == cni.CmdAdd || r.Command == cni.CmdDel || r.Command == cni.CmdCheck {
		if err := errors.Join(cni.CheckName(r.ContainerID), cni.CheckIfName(r.IfName)); err != nil {
			return cni.Errorf(cni.CodeInvalidEnvironment, "CNI_CONTAINERID or CNI_IFNAME: %v", err)
		}
		if r.NetNS == "" && r.Command != cni.CmdDel {
			return cni.Errorf(cni.CodeInvalidEnvironment, "CNI_NETNS is missing")
		}
	}
	return r.previous()
}

// previous reads the previous result. DEL tolerates an invalid one.
func (r *Request) previous() error {
	if len(r.PrevResult) == 0 || string(r.PrevResult) == "null" {
		if r.Command == cni.CmdCheck {
			return cni.Errorf(cni.CodeInvalidConfig, "CHECK needs prevResult")
		}
		return nil
	}
	result, err := cni.ParseResult(r.PrevResult, r.CNIVersion)
	if err != nil && r.Command != cni.CmdDel {
		return cni.Errorf(cni.CodeDecoding, "prevResult: %v", err)
	}
	r.Previous = result
	return nil
}

func (p Plugin) run(ctx context.Context, r *Request) ([]byte, error) {
	call := func(f func(context.Context, *Request) error) ([]byte, error) {
		if f == nil {
			return nil, nil
		}
		return nil, f(ctx, r)
	}
	switch r.Command {
	case cni.CmdVersion:
		return json.Marshal(map[string]any{"cniVersion": r.version(), "supportedVersions": cni.Versions()})
	case cni.CmdDel:
		return call(p.Del)
	case cni.CmdCheck:
		return call(p.Check)
	case cni.CmdGC:
		return call(p.GC)
	case cni.CmdStatus:
		return call(p.Status)
	}
	result, err := p.Add(ctx, r)
	if err != nil {
		return nil, err
	}
	return result.Encode(r.CNIVersion)
}

// version returns the version for output: that of the configuration, if it is supported.
func (r *Request) version() string {
	if r != nil && cni.Supported(r.CNIVersion) {
		return r.CNIVersion
	}
	return "1.0.0"
}

func encodeError(r *Request, err error) []byte {
	out, err := json.Marshal(struct {
		Version string `json:"cniVersion"`
		*cni.Error
	}{r.version(), asError(err)})
	if err != nil { // strings and numbers can always be encoded
		panic(err)
	}
	return out
}

// asError returns err as a [cni.Error].
func asError(err error) *cni.Error {
	if e, ok := errors.AsType[*cni.Error](err); ok {
		if e.Error() == err.Error() {
			return e
		}
		return &cni.Error{Code: e.Code, Msg: err.Error()} // wrapped: keep the context
	}
	e := cni.Errorf(cni.CodePlugin, "%v", err)
	_, isPath := errors.AsType[*fs.PathError](err)
	_, isCall := errors.AsType[*os.SyscallError](err)
	_, isErrno := errors.AsType[syscall.Errno](err)
	if isPath || isCall || isErrno {
		e.Code = cni.CodeIO
	}
	return e
}

// Decode reads the plugin's own keys from the configuration into conf.
func (r *Request) Decode(conf any) error {
	if err := json.Unmarshal(r.Stdin, conf); err != nil {
		return cni.Errorf(cni.CodeDecoding, "configuration: %v", err)
	}
	return nil
}

// Delegate calls another plugin with the same environment and configuration, as the specification
// requires for IPAM.
func (r *Request) Delegate(ctx context.Context, cmd, typ string) ([]byte, error) {
	out, err := r.executor.Exec(ctx, cni.Call{
		Command: cmd, Type: typ, Path: r.Path,
		ContainerID: r.ContainerID, NetNS: r.NetNS, IfName: r.IfName, Args: r.Args,
		Stdin: r.Stdin,
	})
	if _, named := errors.AsType[*cni.CallError](err); named || err == nil {
		return out, err
	}
	return nil, fmt.Errorf("%s %s: %w", typ, cmd, err)
}

// Executor returns the executor for delegated plugins.
func (r *Request) Executor() cni.Executor { return r.executor }
