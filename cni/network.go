package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// GC frees the resources of attachments that are not in valid. It deletes the recorded ones, then
// passes the valid ones to every plugin (version 1.1 and later). It calls all plugins and joins
// their errors. The caller must ensure that no Add of this network runs meanwhile, in any process.
func (i *Invoker) GC(ctx context.Context, l *List, valid []Attachment) error {
	if l.DisableGC {
		return nil
	}
	var failed []error
	known, err := i.records.list(l.Name)
	if err != nil {
		failed = append(failed, err)
	}
	for _, a := range known {
		if !slices.Contains(valid, a) {
			failed = append(failed, i.collect(ctx, l, a))
		}
	}
	if AtLeast(l.Version, "1.1.0") {
		if valid == nil {
			valid = []Attachment{} // absent would mean "unknown"
		}
		extra := map[string]any{
			"cni.dev/valid-attachments": valid,
			"cni.dev/attachments":       valid, // the key in the first text of version 1.1
		}
		for _, p := range l.Plugins {
			if _, err := i.once(ctx, CmdGC, l, p, RuntimeConfig{}, extra); err != nil {
				failed = append(failed, err)
			}
		}
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("gc network %s: %w", l.Name, err)
	}
	return nil
}

// collect deletes a recorded attachment.
func (i *Invoker) collect(ctx context.Context, l *List, a Attachment) error {
	rec, _, err := i.records.read(l.Name, a)
	if err != nil {
		return err
	}
	return i.Del(ctx, l, RuntimeConfig{ContainerID: a.ContainerID, IfName: a.IfName, NetNS: rec.NetNS})
}

// Status asks all plugins whether an Add could succeed now; nil means yes. It does nothing before
// version 1.1.
func (i *Invoker) Status(ctx context.Context, l *List) error {
	if !AtLeast(l.Version, "1.1.0") {
		return nil
	}
	for _, p := range l.Plugins {
		if _, err := i.once(ctx, CmdStatus, l, p, RuntimeConfig{}, nil); err != nil {
			return fmt.Errorf("status of network %s: %w", l.Name, err)
		}
	}
	return nil
}

// Version returns the specification versions that a plugin supports.
func (i *Invoker) Version(ctx context.Context, typ string) ([]string, error) {
	l := &List{Version: "1.1.0"}
	out, err := i.once(ctx, CmdVersion, l, Plugin{Type: typ}, RuntimeConfig{}, nil)
	var info struct {
		Supported []string `json:"supportedVersions"`
	}
	if err == nil {
		err = json.Unmarshal(out, &info)
	}
	return info.Supported, callError(CmdVersion, typ, err)
}

// Validate checks that the plugins of a list are installed and support its version. The joined errors
// name each plugin that is missing or does not.
func (i *Invoker) Validate(ctx context.Context, l *List) error {
	var failed []error
	for _, p := range l.Plugins {
		versions, err := i.Version(ctx, p.Type)
		if err == nil && !slices.Contains(versions, l.Version) {
			err = callError(CmdVersion, p.Type, Errorf(CodeIncompatibleVersion, "the network needs version %s, the plugin supports %q", l.Version, versions))
		}
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("network %s: %w", l.Name, err)
	}
	return nil
}
