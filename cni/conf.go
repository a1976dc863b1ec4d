package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A List is a network: plugins to run in order. It is immutable.
type List struct {
	// Name is the network's name.
	Name string
	// Version is the specification version for calls of plugins: the highest that both the
	// configuration and this package support.
	Version string
	// DisableCheck makes Invoker.Check do nothing.
	DisableCheck bool
	// DisableGC makes Invoker.GC do nothing.
	DisableGC bool
	// Plugins has at least one element.
	Plugins []Plugin
}

// Plugin is the configuration of one plugin in a [List].
type Plugin struct {
	// Type is the name of the plugin's executable.
	Type string
	// Capabilities selects the keys of RuntimeConfig.Capabilities that the plugin gets.
	Capabilities map[string]bool

	keys map[string]json.RawMessage
}

// ErrNoConfig means that a directory contains no network configuration.
var ErrNoConfig = errors.New("no network configuration")

// ParseList reads a network configuration list, or the configuration of a
// single plugin, which becomes a list of one.
func ParseList(data []byte) (*List, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, fmt.Errorf("network configuration: %w", err)
	}
	if keys == nil {
		return nil, errors.New("network configuration: not an object")
	}
	list := new(List)
	if err := list.parse(keys); err != nil {
		return nil, fmt.Errorf("network configuration %q: %w", list.Name, err)
	}
	return list, nil
}

func (l *List) parse(keys map[string]json.RawMessage) error {
	if err := key(keys, "name", &l.Name); err != nil {
		return err
	}
	if err := CheckName(l.Name); err != nil {
		return err
	}
	var version string
	var versions []string
	if err := errors.Join(key(keys, "cniVersion", &version), key(keys, "cniVersions", &versions)); err != nil {
		return err
	}
	var err error
	if l.Version, err = negotiate(version, versions); err != nil {
		return err
	}
	if l.DisableCheck, err = flag(keys, "disableCheck"); err != nil {
		return err
	}
	if l.DisableGC, err = flag(keys, "disableGC"); err != nil {
		return err
	}
	plugins := []map[string]json.RawMessage{keys}
	if _, list := keys["plugins"]; list {
		plugins = nil
		if err := key(keys, "plugins", &plugins); err != nil {
			return err
		}
	}
	if len(plugins) == 0 {
		return errors.New("no plugins")
	}
	for n, keys := range plugins {
		p, err := parsePlugin(keys)
		if err != nil {
			return fmt.Errorf("plugin %d: %w", n, err)
		}
		l.Plugins = append(l.Plugins, p)
	}
	return nil
}

func parsePlugin(keys map[string]json.RawMessage) (Plugin, error) {
	p := Plugin{keys: keys}
	if err := errors.Join(key(keys, "type", &p.Type), key(keys, "capabilities", &p.Capabilities)); err != nil {
		return p, err
	}
	return p, CheckType(p.Type)
}

// key decodes keys[name] into v if it is present. Names are case-sensitive, unlike with
// encoding/json and struct fields.
func key(keys map[string]json.RawMessage, name string, v any) error {
	raw, ok := keys[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// flag reads a boolean, which some configurations write as a string.
func flag(keys map[string]json.RawMessage, name string) (bool, error) {
	switch raw := string(keys[name]); strings.ToLower(strings.Trim(raw, `"`)) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, fmt.Errorf("%s: %s is neither true nor false", name, raw)
	}
}

// stdin returns the plugin's input: its configuration with the keys that the runtime derives
// (section 3 of the specification).
func (p Plugin) stdin(l *List, extra map[string]any) ([]byte, error) {
	conf := make(map[string]any, len(p.keys)+len(extra)+2)
	for k, v := range p.keys {
		conf[k] = v
	}
	for _, k := range []string{"capabilities", "cniVersions", "prevResult", "runtimeConfig"} {
		delete(conf, k)
	}
	conf["name"] = l.Name
	conf["cniVersion"] = l.Version
	for k, v := range extra {
		conf[k] = v
	}
	return json.Marshal(conf)
}

// LoadFile reads a .conf, .json or .conflist file.
func LoadFile(path string) (*List, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l, err := ParseList(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return l, nil
}

// LoadDir reads the first configuration file of dir in the order of names. It fails if that file is
// invalid, so that a typing mistake never moves pods to another network. It returns ErrNoConfig if
// there is none.
func LoadDir(dir string) (*List, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoConfig)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries { // in the order of names
		known := slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name()))
		if known && !e.IsDir() {
			return LoadFile(filepath.Join(dir, e.Name()))
		}
	}
	return nil, fmt.Errorf("%s: %w", dir, ErrNoConfig)
}

// WriteFile replaces the configuration at path atomically, so that a reader of the directory never
// sees a part of it. The configuration must be valid.
func WriteFile(path string, data []byte) error {
	if _, err := ParseList(data); err != nil {
		return err
	}
	return writeFile(path, data, 0o644)
}

// writeFile replaces path by rename. The temporary name has no extension that LoadDir or another
// runtime reads.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
