#include "experiments/common/figures.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/io/file.h"
#include "experiments/common/build_info.h"
#include "experiments/common/report.h"
#include "experiments/common/run.h"
#include "experiments/common/run_folder.h"

namespace bochner {

void write_figures(const Session& session, std::vector<Figure> figures) {
  const RunOptions& options = session.options;
  const RunFolder folder(
      options.out.empty() ? folder_of_runs(session.experiment, options) : std::filesystem::path(options.out),
      options.resume);
  const BuildInfo build = build_info();
  nlohmann::ordered_json results = {{"experiment", session.experiment.name},
                                    {"task", options.task},
                                    {"protocol", options.preset.empty() ? "custom" : options.preset},
                                    {"seed", options.seed},
                                    {"device", options.device},
                                    {"git", build.commit},
                                    {"build", {{"compiler", build.compiler}, {"blas", build.blas}}},
                                    {"figures", nlohmann::ordered_json::array()}};
  std::vector<ReportFigure> pictures;
  for (Figure& figure : figures) {
    nlohmann::ordered_json curves = nlohmann::ordered_json::array();
    int colour = 0;
    for (Curve& curve : figure.curves) {
      curve.colour = colour++ % 8;
      curves.push_back({{"label", curve.label}, {"points", curve.points}});
    }
    results["figures"].push_back({{"title", figure.title},
                                  {"x", figure.x_label},
                                  {"y", figure.y_label},
                                  {"note", figure.note},
                                  {"curves", curves}});
    pictures.push_back({figure.title, "<p>" + html_escaped(figure.note) + "</p>\n<div class=\"charts\">" +
                                          line_chart(figure.y_label, figure.x_label, figure.curves) + "</div>"});
  }
  write_file_atomically(folder / "config.ini", config_ini(session.experiment, session.fields));
  write_file_atomically(folder / "results.json", results.dump(1) + "\n");
  const std::string title = fmt::format("{}: {}", session.experiment.name, options.task);
  write_file_atomically(folder / "report.html",
                        report_html(title, {}, PaperTable::parse(session.experiment.resources.paper), pictures));
  fmt::print("{}\n", (folder / "report.html").string());
}

}  // namespace bochner
