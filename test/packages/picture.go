package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/criadapter/criadapter/test/debian"
	"github.com/criadapter/criadapter/test/packages/dashboard"
)

// pictureTime is the time that the dashboard's picture covers.
const pictureTime = 45 * time.Second

// dashboard scrapes the server while pods come and go, runs every query of the dashboard, and draws the results.
func (s *suite) dashboard(ctx context.Context) error {
	if _, err := s.machine.Shell(ctx, `
		echo 'metrics-bind-addr: 127.0.0.1:9092' >> /etc/criadapter/config.yaml
		systemctl restart criadapter
		printf '%s\n' 'global: {scrape_interval: 1s}' 'scrape_configs: [{job_name: criadapter, static_configs: [{targets: ["127.0.0.1:9092"]}]}]' > /run/prometheus.yml
		systemd-run --unit prometheus /mnt/prometheus --config.file /run/prometheus.yml --storage.tsdb.path /run/prometheus --web.listen-address 127.0.0.1:9090`); err != nil {
		return err
	}
	if err := s.churn(ctx); err != nil {
		return err
	}
	panels, err := dashboard.Read("contrib/grafana/criadapter.json")
	if err != nil {
		return err
	}
	end := time.Now()
	shown := 0
	for i := range panels {
		for _, target := range panels[i].Targets {
			// Shell would add its trace to the output, which has to be JSON.
			text, err := s.machine.Run(ctx, "/mnt/promtool", "query", "range", "--format=json", "--step=1s",
				fmt.Sprintf("--start=%d", end.Add(-pictureTime).Unix()), fmt.Sprintf("--end=%d", end.Unix()),
				"http://127.0.0.1:9090", dashboard.Query(target.Expr, "10s"))
			if err != nil {
				return fmt.Errorf("%s: %w", panels[i].Title, err)
			}
			series, err := dashboard.Answer([]byte(text), target.LegendFormat)
			if err != nil {
				return fmt.Errorf("%s: %w", panels[i].Title, err)
			}
			panels[i].Series = append(panels[i].Series, series...)
		}
		if len(panels[i].Series) > 0 {
			shown++
		}
	}
	// The panels of pulls and errors stay empty.
	if shown < 18 {
		return fmt.Errorf("only %d panels of %d show something", shown, len(panels))
	}
	const picture = "build/packages/dashboard.svg"
	const pictureTitle = "The dashboard of criadapter, on a node with pods that come and go"
	if err := os.MkdirAll(filepath.Dir(picture), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(picture, []byte(dashboard.SVG(pictureTitle, panels)), 0o644); err != nil {
		return err
	}
	fmt.Printf("     %d panels have data, see %s\n", shown, picture)
	_, err = s.machine.Shell(ctx, "systemctl stop prometheus")
	return err
}

// churn brings pods up and removes them for pictureTime, and lists them as a kubelet does.
func (s *suite) churn(ctx context.Context) error {
	_, err := s.machine.Shell(ctx, `
		crictl='/mnt/crictl --runtime-endpoint unix://`+ownSocket+`'
		end=$(($(date +%s) + `+fmt.Sprint(int(pictureTime.Seconds()))+`))
		n=0
		while [ $(date +%s) -lt $end ]; do
			n=$((n + 1))
			echo '{"metadata": {"name": "churn'$n'", "namespace": "default", "uid": "'$n'", "attempt": 0}, "log_directory": "/var/log/pods/churn'$n'", "linux": {}}' > /run/churn.json
			echo '{"metadata": {"name": "hello", "attempt": 0}, "image": {"image": "`+debian.PodImage+`"}, "log_path": "hello.log", "linux": {}}' > /run/churned.json
			$crictl run --no-pull /run/churned.json /run/churn.json
			$crictl pods > /dev/null
			$crictl ps -a > /dev/null
			$crictl stats > /dev/null
			$crictl rmp --force $($crictl pods --quiet --name churn$n)
		done`)
	return err
}
