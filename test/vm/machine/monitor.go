package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
)

// answer is a message of the emulator: an event, or the answer to a command.
type answer struct {
	Event  string          `json:"event"`
	Data   json.RawMessage `json:"data"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Desc string `json:"desc"`
	} `json:"error"`
}

// qmp is a connection to the emulator's monitor (QEMU Machine Protocol).
type qmp struct {
	conn    net.Conn
	decoder *json.Decoder
}

// openMonitor connects to the monitor. The connection ends with ctx.
func (m *Machine) openMonitor(ctx context.Context) (*qmp, func(), error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", m.monitor())
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	q := &qmp{conn: conn, decoder: json.NewDecoder(conn)}
	closeAll := func() {
		stop()
		conn.Close()
	}
	if err := q.do("qmp_capabilities", nil); err != nil {
		closeAll()
		return nil, nil, err
	}
	return q, closeAll, nil
}

// do has the emulator run a command, and waits for its answer.
func (q *qmp) do(command string, arguments any) error {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := json.NewEncoder(q.conn).Encode(request); err != nil {
		return err
	}
	for {
		var a answer
		if err := q.decoder.Decode(&a); err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
		switch {
		case a.Error != nil:
			return fmt.Errorf("%s: %s", command, a.Error.Desc)
		case a.Return != nil:
			return nil
		}
	}
}

// saved waits until the memory is saved.
func (q *qmp) saved() error {
	for {
		var a answer
		if err := q.decoder.Decode(&a); err != nil {
			return err
		}
		var data struct{ Status string }
		if a.Event != "MIGRATION" {
			continue
		}
		if err := json.Unmarshal(a.Data, &data); err != nil {
			return err
		}
		switch data.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("saving the memory %s", data.Status)
		}
	}
}

// saveMemory writes the machine's memory to a file and ends the machine. Another machine with the same disk can be
// resumed from the file. The machine is not halted first, because a machine that is resumed from a halt would stay
// halted.
func (m *Machine) saveMemory(ctx context.Context, path string) error {
	if _, err := m.Run(ctx, "sync"); err != nil {
		return err
	}
	if err := m.hangUp(ctx); err != nil {
		return err
	}
	q, closeMonitor, err := m.openMonitor(ctx)
	if err != nil {
		return err
	}
	defer closeMonitor()
	events := map[string]any{"capabilities": []any{map[string]any{"capability": "events", "state": true}}}
	if err := q.do("migrate-set-capabilities", events); err != nil {
		return err
	}
	unlimited := map[string]any{"max-bandwidth": 1 << 40}
	if err := q.do("migrate-set-parameters", unlimited); err != nil {
		return err
	}
	if err := q.do("migrate", map[string]any{"uri": "exec:cat > " + path}); err != nil {
		return err
	}
	if err := q.saved(); err != nil {
		return err
	}
	return q.do("quit", nil)
}
