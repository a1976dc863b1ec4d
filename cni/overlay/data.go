//go:build linux

package overlay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
)

// A MAC is a hardware address of Ethernet.
type MAC [6]byte

// String returns the address as "02:00:00:00:00:01".
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// MarshalText returns the address as String does.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText parses an address as String returns it. Other notations and lengths are errors.
func (m *MAC) UnmarshalText(text []byte) error {
	mac, err := net.ParseMAC(string(text))
	if err != nil || len(mac) != len(m) {
		return fmt.Errorf("%.20q is no hardware address", text)
	}
	copy(m[:], mac)
	if m.String() != string(text) {
		return fmt.Errorf("%.20q is no hardware address with colons and small letters", text)
	}
	return nil
}

// check refuses addresses that cannot be those of one interface.
func (m MAC) check() error {
	switch {
	case m == MAC{}:
		return errors.New("mac is missing or zero")
	case m[0]&1 != 0:
		return fmt.Errorf("mac %v is a group address", m)
	}
	return nil
}

// deriveMAC returns the hardware address of the member's VXLAN device. It is the same after a restart,
// and even after the device was deleted, so that other members keep a valid one.
func deriveMAC(name string) MAC {
	sum := sha256.Sum256([]byte("planekit overlay\x00" + name))
	var m MAC
	copy(m[:], sum[:])
	m[0] = m[0]&^1 | 2 // one interface, locally administered
	return m
}

// Data holds what a member's backend publishes so that the other members can reach it.
type Data struct {
	// MAC is the hardware address of the VXLAN device.
	MAC MAC `json:"mac,omitzero"`
	// VNI is the VXLAN network identifier.
	VNI int `json:"vni,omitempty"`
	// Port is the UDP port of VXLAN and UDP.
	Port int `json:"port,omitempty"`
}

// MaxData is the size in bytes above which [ParseData] refuses a text.
const MaxData = 512

// ParseData parses the JSON form of Data. Unknown fields, values out of range, and texts that are
// larger than [MaxData] or go on after the object are errors, which name the field.
func ParseData(text []byte) (Data, error) {
	var d Data
	if len(text) > MaxData {
		return Data{}, fmt.Errorf("backend data of %d bytes, more than %d", len(text), MaxData)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return Data{}, errors.New("backend data is not a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Data{}, fmt.Errorf("backend data: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Data{}, errors.New("backend data goes on after its object")
	}
	if d.MAC != (MAC{}) {
		if err := d.MAC.check(); err != nil {
			return Data{}, err
		}
	}
	if d.VNI < 0 || d.VNI > maxVNI {
		return Data{}, fmt.Errorf("vni %d is not in 0-%d", d.VNI, maxVNI)
	}
	if d.Port < 0 || d.Port > maxPort {
		return Data{}, fmt.Errorf("port %d is not in 0-%d", d.Port, maxPort)
	}
	return d, nil
}

const (
	maxVNI  = 1<<24 - 1
	maxPort = 1<<16 - 1
)
