package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fileLimit is the greatest size of a docker configuration in bytes.
const fileLimit = 1 << 20

// NodeCredentials returns the credentials in the docker configuration of a node that match an image,
// the most specific first. The configuration is the first valid config.json in directories, or else
// the first valid .dockercfg. The error names the files that are not valid and were left out; it does
// not quote them.
func NodeCredentials(directories []string, image string) ([]*runtimeapi.AuthConfig, error) {
	var errs []error
	for _, kind := range []struct {
		name  string
		parse func([]byte) (map[string]login, error)
	}{{"config.json", parseConfigJSON}, {".dockercfg", parseDockercfg}} {
		for _, directory := range directories {
			path := filepath.Join(directory, kind.name)
			data, err := readRegular(path)
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			var logins map[string]login
			if err == nil {
				logins, err = kind.parse(data)
			}
			if err == nil {
				return matching(logins, image), errors.Join(errs...)
			}
			errs = append(errs, fmt.Errorf("docker configuration %s: %w", path, err))
		}
	}
	return nil, errors.Join(errs...)
}

func parseConfigJSON(data []byte) (map[string]login, error) {
	var file struct {
		Auths map[string]login `json:"auths"`
	}
	if json.Unmarshal(data, &file) != nil {
		return nil, errors.New("not valid JSON")
	}
	return file.Auths, nil
}

func parseDockercfg(data []byte) (map[string]login, error) {
	var logins map[string]login
	if json.Unmarshal(data, &logins) != nil {
		return nil, errors.New("not valid JSON")
	}
	return logins, nil
}

// matching returns the credentials for an image, the most specific first.
func matching(logins map[string]login, image string) []*runtimeapi.AuthConfig {
	var list []*runtimeapi.AuthConfig
	for _, registry := range slices.Backward(slices.Sorted(maps.Keys(logins))) {
		if fits(registry, image) {
			list = append(list, logins[registry].config(registry))
		}
	}
	return list
}

// readRegular reads a file, or what a link leads to. It reads no device and no FIFO, which could block.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, fileLimit+1))
	if err == nil && len(data) > fileLimit {
		err = fmt.Errorf("larger than %d bytes", fileLimit)
	}
	return data, err
}
